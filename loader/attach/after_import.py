"""Changes to a module as soon as it has been imported, without importing it.

A change is made right after the module's own code has run, and before any other module can take a name out of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Change = Callable[[ModuleType], None]


def after_import(changes: Mapping[str, Change]) -> None:
    """Call each function with its module: at once if that is imported already, else as soon as it is, if ever."""
    for name, change in changes.items():
        if name in sys.modules:
            change(sys.modules[name])
    waiting = {name: change for name, change in changes.items() if name not in sys.modules}
    if waiting:
        sys.meta_path.insert(0, _Finder(lambda name: waiting.pop(name, None)))


def after_import_below(package: str, change: Change, *, without: Sequence[str] = ()) -> None:
    """Call a function with every module of a package: the imported ones at once, each other one as soon as it is.

    Parameters
    ----------
    package
        The package; its own ``__init__`` counts.
    change
        What to do to each module.
    without
        Packages below it that are left alone.
    """

    def concerns(name: str) -> bool:
        return _below(name, package) and not any(_below(name, other) for other in without)

    for name, module in list(sys.modules.items()):
        if concerns(name) and isinstance(module, ModuleType):
            change(module)
    seen: set[str] = set()

    def take(name: str) -> Change | None:
        if name in seen or not concerns(name):
            return None
        seen.add(name)
        return change

    sys.meta_path.insert(0, _Finder(take))


def _below(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


class _Finder(MetaPathFinder):
    """Finds what every other finder would, with a loader that makes the change last."""

    def __init__(self, take: Callable[[str], Change | None]) -> None:
        self._take = take

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._take(fullname)  # given once, so that the search below does not come back here
        if change is None:
            return None
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
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
