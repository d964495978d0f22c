"""Patch a module as soon as it has been imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Change = Callable[[ModuleType], None]


def after_import(changes: Mapping[str, Change]) -> None:
    """Call each function with its module: now if it is imported already, else as soon as it is imported."""
    for name, change in changes.items():
        if name in sys.modules:
            change(sys.modules[name])
    waiting = {name: change for name, change in changes.items() if name not in sys.modules}
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))


class _Finder(MetaPathFinder):
    """Finds what the other finders find, with a loader that applies the change at the end."""

    def __init__(self, changes: dict[str, Change]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._changes.pop(
            fullname, None
        )  # removed first, so that the search below does not reach this finder again
        if change is None:
            return None
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            self._changes[fullname] = change
            return None
        spec.loader = _Loader(spec.loader, change)
        return spec


class _Loader(Loader):
    def __init__(self, inner: Loader, change: Change) -> None:
        self._inner = inner
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Code that asks the module for its loader (inspect, importlib.resources) must get the real one.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        self._change(module)
