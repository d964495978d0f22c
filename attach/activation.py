"""Activation: ``PRECAST_ATTACH=quack,flashinfer`` attaches these libraries in every process that inherits it.

Python runs ``precast_attach.pth`` of this wheel when it starts, also for a spawned process. Where the variable
is set, that calls ``activate``, which imports little: a library is attached right before the first import of its
package, and a process that imports none pays nothing more. Engines call ``plugin``, for an installation whose ``.pth``
files Python does not read, such as a folder on ``PYTHONPATH``.

A library that is not installed is skipped: one variable serves a whole fleet. A name that no library has is printed at
the start, and importing any library that precast knows is then an error, so that no engine runs half attached.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from precast.loader.errors import ConfigError
from precast.loader.locks import IMPORT_LOCK

TYPE_CHECKING = False  # typing's own would import typing, which takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

PACKAGES = {
    "quack": "quack",
    "flash_attention": "flash_attn",
    "flashinfer": "flashinfer",
    "cutlass_operators": "cutlass.operators",
    "vllm": "vllm",
    "sglang": "sglang",
}
"""The package of each library that ships with precast: what it declares elsewhere, without importing that."""


def activate() -> None:
    """Attach each library that ``PRECAST_ATTACH`` names as soon as its package is imported.

    A second call does nothing, and neither does a call where the variable is unset or empty.

    >>> activate()
    """
    names = [name.strip() for name in os.environ.get("PRECAST_ATTACH", "").split(",") if name.strip()]
    if names and _finder() is None:
        packages, problem = _packages(names)
        sys.meta_path.insert(0, _Finder(packages, problem))


def plugin() -> None:
    """The plug-in of engines: ``activate``, and attach at once what the engine has imported already.

    Installing precast changes no engine: without ``PRECAST_ATTACH`` this does nothing.

    >>> plugin()
    """
    activate()
    finder = _finder()
    if finder is not None:
        finder.attach_imported()


def _finder() -> _Finder | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)


def _packages(names: Sequence[str]) -> tuple[dict[str, str], str]:
    """The package of each library, and what is wrong with the names; no text where they are right.

    A library of another distribution is declared by an entry point, whose module is imported to learn the package.
    """
    packages, problem = {}, ""
    for name in names:
        try:
            packages[name] = PACKAGES.get(name) or import_module("precast.attach.library").library_named(name).package
        except Exception as error:  # of an entry point's module: any
            problem = f"PRECAST_ATTACH={','.join(names)}: {error}"
    if problem:
        print(f"precast: {problem}", file=sys.stderr)
        packages.update(PACKAGES)
    return packages, problem


class _Finder:
    """Finds what the finders after it find, and has the first module of a library attach the library."""

    def __init__(self, packages: dict[str, str], problem: str) -> None:
        self._waiting = packages
        self._problem = problem

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self._concerned(fullname):
            return None
        spec = self.found_by_others(fullname, path, target)
        # A folder without __init__.py has no loader: the first module below it attaches.
        if spec is not None and spec.loader is not None:
            loader: Any = _Loader(spec.loader, self, path)
            spec.loader = loader
        return spec

    def found_by_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What all other finders find: those of hooks, too, which come before this one."""
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def attach(self, module: str) -> None:
        """Attach the libraries that a module belongs to, unless the program has. Each import repeats a refusal."""
        with IMPORT_LOCK:
            names = self._concerned(module)
            if names and self._problem:
                raise ConfigError(self._problem)
            if names:
                process = import_module("precast.attach.process")
                attached = process.attached()
                if attached is None or not attached.libraries.keys() >= set(names):
                    process.attach(names, without_compiler=process.importers.is_needed())
            for name in names:
                del self._waiting[name]

    def attach_imported(self) -> None:
        """Attach the libraries that are imported already; an engine that calls this may import none that is known."""
        if self._problem:
            raise ConfigError(self._problem)
        for package in list(self._waiting.values()):
            if package in sys.modules:
                self.attach(package)

    def _concerned(self, module: str) -> list[str]:
        """The libraries that a module belongs to, as long as they are not attached."""
        waiting = list(self._waiting.items())
        return [name for name, package in waiting if module == package or module.startswith(f"{package}.")]


class _Loader:
    """The loader of a library's first module, which attaches the library before the module is made.

    A search that imports nothing, such as ``importlib.util.find_spec``, attaches nothing.
    """

    def __init__(self, inner: Any, finder: _Finder, path: Sequence[str] | None) -> None:
        self._inner = inner
        self._finder = finder
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Attach; from here on the module is of the loader that the hooks have for it."""
        self._finder.attach(spec.name)
        hooked = self._finder.found_by_others(spec.name, self._path)
        loader: Any = self._inner if hooked is None else hooked.loader
        spec.loader = loader
        module: ModuleType | None = loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Reached by a reload only, since ``create_module`` puts another loader here."""
        self._inner.exec_module(module)
