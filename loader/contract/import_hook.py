"""Changes to a module as soon as it has been imported, without importing it.

A change is made right after the module's own code has run, and before any other module can take a name out of it. It is
made again when the module is reloaded, and at the next attempt when an import failed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType], None]


def after_import(changes: Mapping[str, Change]) -> None:
    """Call each function with its module: at once if that is imported already, and whenever it is executed.

    >>> after_import({"json": lambda module: print(module.__name__)})
    json
    """
    _change_imported(changes.get)
    sys.meta_path.insert(0, _Finder(changes.get))


def after_import_below(package: str, change: Change, *, without: Sequence[str] = ()) -> None:
    """Call a function with every module of a package: the imported ones now, each other one when it is executed.

    Parameters
    ----------
    package
        The package; its own ``__init__`` counts.
    change
        What to do to each module.
    without
        Packages below it that are not changed.
    """

    def change_of(name: str) -> Change | None:
        concerned = is_below(name, package) and not any(is_below(name, other) for other in without)
        return change if concerned else None

    _change_imported(change_of)
    sys.meta_path.insert(0, _Finder(change_of))


def during_import(module: str, context: Callable[[], AbstractContextManager[object]]) -> None:
    """Execute the code of a module within a context, whenever it is executed from now on.

    >>> during_import("no_such_module", contextlib.nullcontext)
    """
    nothing: dict[str, Change] = {module: lambda _: None}
    sys.meta_path.insert(0, _Finder(nothing.get, context))


def _change_imported(change_of: Callable[[str], Change | None]) -> None:
    for name, module in list(sys.modules.items()):
        change = change_of(name)
        if change is not None and isinstance(module, ModuleType):
            change(module)


def imported_below(package: str, *, without: Sequence[str] = ()) -> dict[str, ModuleType]:
    """The modules of a package that are imported already, or are being imported; its own ``__init__`` counts.

    A folder without ``__init__.py`` has no code, so it is not one of them.

    >>> "json.decoder" in imported_below("json"), imported_below("no_such_package")
    (True, {})
    """
    return {
        name: module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and is_below(name, package)
        and not any(is_below(name, other) for other in without)
        and getattr(module, "__file__", None) is not None
    }


def is_below(name: str, package: str) -> bool:
    """Whether a module is a package, or is inside it.

    >>> is_below("json.decoder", "json"), is_below("jsonschema", "json")
    (True, False)
    """
    return name == package or name.startswith(f"{package}.")


class _Finder(MetaPathFinder):
    """Finds what the finders after it find, with a loader that makes the change last."""

    def __init__(
        self,
        change_of: Callable[[str], Change | None],
        context: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        self._change_of, self._context = change_of, context

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._change_of(fullname)
        if change is None:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:  # a folder without __init__.py has none
                    spec.loader = _Loader(spec.loader, change, self._context)
                return spec
        return None


class _Loader(Loader):
    """The loader of a module, which makes a change after loading it; in all else it behaves as that loader."""

    def __init__(self, inner: Loader, change: Change, context: Callable[[], AbstractContextManager[object]]) -> None:
        self._inner = inner
        self._change = change
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Code that reads the loader off the module (inspect, importlib.resources) must get the real one.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        with self._context():
            self._inner.exec_module(module)
        self._change(module)
