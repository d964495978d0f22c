"""Stand-ins for an engine's native modules, in the builder's processes, which may have no GPU and no driver."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_FAILURES = (ImportError, OSError, RuntimeError, AssertionError)


def empty_where_absent(names: Collection[str]) -> None:
    """Give empty modules for those of these names that are not installed, or that cannot be imported here.

    Functions of an empty module do nothing.

    >>> empty_where_absent(["precast.no_such_extension"])
    >>> import precast.no_such_extension
    >>> precast.no_such_extension.sort(1, 2) is None
    True
    """
    sys.meta_path.insert(0, _Finder(frozenset(names)))


class _Empty(ModuleType):
    """A module that has every function."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def _nothing(*args: object, **kwargs: object) -> None:
    pass


class _Finder(MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        after = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(fullname, path, target) for finder in after)
        real = next((spec for spec in found if spec is not None), None)
        return ModuleSpec(fullname, _Loader(real), origin=real.origin if real else None)


class _Loader(Loader):
    """Loads the real module, or an empty one where that fails, as without ``libcuda.so.1``."""

    def __init__(self, real: ModuleSpec | None) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if self._real is not None and self._real.loader is not None:
            try:
                return self._real.loader.create_module(self._real)
            except _FAILURES:
                self._real = None
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if self._real is not None and self._real.loader is not None:
            try:
                self._real.loader.exec_module(module)
            except _FAILURES:
                module.__class__ = _Empty
