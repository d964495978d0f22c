"""Late imports: what is done with a module as soon as it is imported, now or later."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def after_import(name: str, act: Callable[[ModuleType], object]) -> None:
    """Call a function with a module: at once if it is imported, else right after its import.

    >>> found: list[str] = []
    >>> after_import("sys", lambda module: found.append(module.__name__))
    >>> found
    ['sys']
    """
    if (module := sys.modules.get(name)) is not None:
        act(module)
    else:
        sys.meta_path.insert(0, _Finder(name, act))


class _Finder:
    def __init__(self, name: str, act: Callable[[ModuleType], object]) -> None:
        self._name, self._act = name, act

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._act)  # type: ignore[assignment]
        return spec


class _Loader:
    """The module's own loader, with one more step."""

    def __init__(self, loader: Any, act: Callable[[ModuleType], object]) -> None:
        self._loader, self._act = loader, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._act(module)
