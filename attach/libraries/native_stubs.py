"""Stand-ins for an engine's native modules, in the builder's processes, which may have no GPU and no driver."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_FAILURES = (ImportError, OSError, RuntimeError, AssertionError, TypeError)
"""How an import fails without a driver. TypeError: the Python code of a package iterates over what its native module,
which is empty by then, should have had."""


def empty_where_absent(names: Collection[str]) -> None:
    """Give empty modules for those of these names, and below them, that are not installed or cannot be imported here.

    Functions of an empty module do nothing.

    >>> empty_where_absent(["precast.no_such_extension"])
    >>> import precast.no_such_extension
    >>> precast.no_such_extension.sort(1, 2) is None
    True
    """
    sys.meta_path.insert(0, _Finder(frozenset(names)))


class NativeOperatorAbsent(Exception):
    """An operator of a native module, which is not loaded here, was called for its results."""


class _Empty(ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> _Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name()


class _Name:
    """A name of an empty module. As a function it does nothing; as a decorator, with options or not, it leaves a
    function as it is."""

    def __getattr__(self, name: str) -> _Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return None if args else self


class _Finder(MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(fullname == name or fullname.startswith(f"{name}.") for name in self._names):
            return None
        after = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in after)
        spec = next((spec for spec in specs if spec is not None), None) or ModuleSpec(fullname, None)
        spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loads the real module, or an empty one where that fails, as without ``libcuda.so.1``."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        try:
            return None if self._real is None else self._real.create_module(spec)
        except _FAILURES:
            self._real = None
            return None

    def exec_module(self, module: ModuleType) -> None:
        try:
            if self._real is None:
                raise ImportError(module.__name__)
            self._real.exec_module(module)
        except _FAILURES:
            module.__class__, module.__path__ = _Empty, []
