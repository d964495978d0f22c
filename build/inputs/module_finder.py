"""The module finder: the file that an import would load, found without importing anything."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

SITES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class FoundModule:
    """A module with a file: its name, the file, and whether it is a package."""

    name: str
    file: Path
    package: bool


def is_own(file: Path, home: Path) -> bool:
    """Whether a file in a folder is its own code. An environment inside the folder holds the code of distributions.

    >>> work = Path("/work")
    >>> is_own(work / "tiles.py", work), is_own(work / ".venv/lib/python3.12/site-packages/yaml/reader.py", work)
    (True, False)
    """
    return file.is_relative_to(home) and not SITES.intersection(file.relative_to(home).parts)


class ModuleFinder:
    """Finds the files of modules the way the import system would, importing nothing.

    ``path`` is searched after the search folders. Modules of the standard library are not found. The finders of this
    process are used, too: editable installs have their own.
    """

    def __init__(self, search: Sequence[Path], path: Iterable[str]) -> None:
        self.roots = tuple(folder.resolve() for folder in search)
        self._search = [str(folder) for folder in search]
        self._path = [*self._search, *path]
        self._finders = [f for f in sys.meta_path if f is not PathFinder]
        self._specs: dict[str, ModuleSpec | None] = {}
        self._modules: dict[str, FoundModule] = {}
        self.links: dict[str, set[str]] = {}  # the paths by which files were found, if links are on the way

    def chain(self, name: str) -> tuple[FoundModule, ...]:
        """The module and its packages that have files, outermost first; all that there are of one that is missing."""
        return tuple(self._walk(name))

    def homes(self, chain: tuple[FoundModule, ...]) -> tuple[Path, ...]:
        """The folder of the outermost package; outside any package, the folder of the namespace or the file itself.

        A package inside another one that is installed elsewhere has its own home.
        """
        inside = (m for m in chain if m.package and chain[-1].file.is_relative_to(m.file.parent))
        outermost = next(inside, chain[0])
        if any(is_own(outermost.file, root) for root in self.roots):
            return self.roots
        return (outermost.file.parent if outermost.package or "." in outermost.name else outermost.file,)

    def _walk(self, name: str) -> Iterator[FoundModule]:
        path: Sequence[str] = self._path
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            dotted = ".".join(parts[:depth])
            if dotted not in self._specs:
                builtin = depth == 1 and dotted in sys.stdlib_module_names
                # A search folder comes before the standard library, as when the kernel is imported.
                folders = (() if is_built_in(dotted) else self._search) if builtin else path
                spec_on_path = _find(dotted, folders, self._finders if depth == 1 and not builtin else ())
                self._specs[dotted] = spec_on_path or self._elsewhere(dotted)
            spec = self._specs[dotted]
            if spec is None:
                return
            if spec.has_location and spec.origin:
                if dotted not in self._modules:
                    file = Path(spec.origin).resolve()
                    if str(file) != spec.origin:
                        self.links.setdefault(str(file), set()).add(spec.origin)
                    self._modules[dotted] = FoundModule(spec.name, file, spec.submodule_search_locations is not None)
                yield self._modules[dotted]
            if spec.submodule_search_locations is None:
                return
            path = list(spec.submodule_search_locations)

    def _elsewhere(self, name: str) -> ModuleSpec | None:
        """A module in another folder of its package's name on the path, which a package may add to its own path."""
        *parents, _ = name.split(".")
        folders = [os.path.join(folder, *parents) for folder in self._path]
        return _find(name, [folder for folder in folders if os.path.isdir(folder)]) if parents else None


def is_built_in(name: str) -> bool:
    """Whether a module is part of the interpreter, so that nothing on the path can hide it.

    >>> is_built_in("sys"), is_built_in("colorsys")
    (True, False)
    """
    return name in sys.builtin_module_names or ("." not in name and FrozenImporter.find_spec(name) is not None)


def _find(name: str, path: Sequence[str], finders: Iterable[Any] = ()) -> ModuleSpec | None:
    """The spec that an import of this name would use, from these folders or these finders.

    The import system looks for the parents of a namespace package among the loaded modules; here none is loaded.
    """
    if not name:
        return None
    portions: list[str] = []
    for folder in path:
        finder = pkgutil.get_importer(folder)
        spec = finder.find_spec(name) if finder is not None else None
        if spec is not None and spec.loader is not None:
            return spec
        if spec is not None:
            portions += spec.submodule_search_locations or ()
    if portions:
        namespace = ModuleSpec(name, None, is_package=True)
        namespace.submodule_search_locations = portions
        return namespace
    return next((spec for other in finders if (spec := _find_by(other, name)) is not None), None)


def _find_by(finder: Any, name: str) -> ModuleSpec | None:
    """The spec that a finder of another distribution gives. That of setuptools imports setuptools to answer for
    ``distutils``, which adds a folder to Python's path: the next answers in this process would find what is in there.
    """
    path = list(sys.path)
    try:
        spec: ModuleSpec | None = finder.find_spec(name, None, None)
    finally:
        sys.path[:] = path
    return spec
