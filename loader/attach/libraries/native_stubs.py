"""What a library needs to be imported where there is no GPU: empty modules for its native ones that cannot be loaded.

The builder replaces CUDA itself in its processes. A library declares by ``Library.without_gpu`` what else it asks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def empty_where_absent(names: Collection[str], filled: Callable[[ModuleType], None] | None = None) -> None:
    """Give empty modules for those of these names that are not installed, or whose libraries cannot be loaded here.

    Parameters
    ----------
    names
        Modules of native code.
    filled
        Called with each empty module, to put into place what its import would have.

    >>> empty_where_absent(["precast.no_such_extension"])
    >>> import precast.no_such_extension
    """
    sys.meta_path.insert(0, _Finder(frozenset(names), filled))


class _Finder(MetaPathFinder):
    def __init__(self, names: frozenset[str], filled: Callable[[ModuleType], None] | None) -> None:
        self._names, self._filled = names, filled

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        after = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(fullname, path, target) for finder in after)
        real = next((spec for spec in found if spec is not None), None)
        return ModuleSpec(fullname, _Loader(real, self._filled), origin=real.origin if real else None)


class _Loader(Loader):
    """Loads the real module, or an empty one where that fails."""

    def __init__(self, real: ModuleSpec | None, filled: Callable[[ModuleType], None] | None) -> None:
        self._real, self._filled = real, filled

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if self._real is not None and self._real.loader is not None:
            try:
                return self._real.loader.create_module(self._real)
            except ImportError:  # such as libcuda.so.1
                self._real = None
        return None

    def exec_module(self, module: ModuleType) -> None:
        if self._real is not None and self._real.loader is not None:
            self._real.loader.exec_module(module)
        elif self._filled is not None:
            self._filled(module)
