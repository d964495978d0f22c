"""Sources: the digest of the Python code that a kernel function can reach within its own package.

Files are read, never imported. What counts is the content of the modules under the names they are imported by, so
that a checkout may move; a package of someone else's counts by its version, which the key holds besides.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from precast.build.errors import ObjectError
from precast.loader.config import canonical


@dataclass(frozen=True, slots=True)
class _Module:
    """A module by the name it is imported by, and the file it is in; ``package`` for an ``__init__.py``."""

    name: str
    file: Path
    package: bool


def source_digest(source: str, search: Sequence[Path]) -> str:
    """The digest over every module that ``module:function`` reaches by imports inside its own package.

    A module that stands in a search folder by itself counts that folder as its package.

    >>> len(source_digest("precast.kernels.registry:load", []))
    64
    """
    return _digest(source.partition(":")[0], tuple(search))


def source_files(source: str, search: Sequence[Path]) -> tuple[Path, ...]:
    """The files in the search folders that ``module:function`` reaches: what another machine needs to compile it.

    >>> source_files("precast.kernels.registry:load", [])
    ()
    """
    finder = _Finder(tuple(search))
    roots = tuple(folder.resolve() for folder in search)
    return tuple(m.file for m in _reached(finder, _chain(finder, source.partition(":")[0]), roots))


@functools.cache
def _digest(name: str, search: tuple[Path, ...]) -> str:
    finder = _Finder(search)
    chain = _chain(finder, name)
    reached = _reached(finder, chain, (finder.home(chain),))
    listed = [[m.name, hashlib.sha256(m.file.read_bytes()).hexdigest()] for m in reached]
    return hashlib.sha256(canonical(sorted(listed))).hexdigest()


def _chain(finder: _Finder, name: str) -> tuple[_Module, ...]:
    chain = finder.chain(name)
    if not chain:
        raise ObjectError(
            f"there is no module {name!r}: install its distribution, or add its folder to 'path:' in the manifest"
        )
    return chain


def _reached(finder: _Finder, chain: Sequence[_Module], homes: tuple[Path, ...]) -> tuple[_Module, ...]:
    """What a module and its packages import, and so on, as far as it lies in one of the folders."""
    reached: dict[str, _Module] = {}
    pending = list(chain)
    while pending:
        module = pending.pop()
        if module.name in reached or not any(module.file.is_relative_to(home) for home in homes):
            continue
        reached[module.name] = module
        for wanted in _imports(module):
            pending.extend(finder.chain(wanted))
    return tuple(reached[name] for name in sorted(reached))


class _Finder:
    """Finds the files of modules the way the import system would, importing nothing."""

    def __init__(self, search: tuple[Path, ...]) -> None:
        self._search = search
        self._found: dict[str, tuple[_Module, ...]] = {}

    def chain(self, name: str) -> tuple[_Module, ...]:
        """The module and the packages it stands in, outermost first, as far as they have files."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = tuple(self._walk(name))
        return found

    def home(self, chain: tuple[_Module, ...]) -> Path:
        """The folder of the outermost package; for a lone module its search folder, or else the file itself."""
        outermost = chain[0]
        for folder in self._search:
            if outermost.file.is_relative_to(folder.resolve()):
                return folder.resolve()
        return outermost.file.parent if outermost.package else outermost.file

    def _walk(self, name: str) -> Iterator[_Module]:
        path: Sequence[str] | None = [*map(str, self._search), *sys.path]
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            spec = _find(".".join(parts[:depth]), path, top=depth == 1)
            if spec is None:
                return
            if spec.origin and spec.origin.endswith(".py"):
                yield _Module(spec.name, Path(spec.origin).resolve(), spec.submodule_search_locations is not None)
            if spec.submodule_search_locations is None:
                return
            path = list(spec.submodule_search_locations)


def _find(name: str, path: Sequence[str] | None, *, top: bool) -> ModuleSpec | None:
    found = PathFinder.find_spec(name, path)
    if found is None and top:
        for finder in sys.meta_path:  # editable installs have finders of their own
            if finder is not PathFinder and (found := finder.find_spec(name, None, None)) is not None:
                break
    return found


@functools.cache
def _imports(module: _Module) -> tuple[str, ...]:
    """Every module name that a file imports, wherever in it the import stands."""
    try:
        tree = ast.parse(module.file.read_bytes(), str(module.file))
    except SyntaxError as error:
        raise ObjectError(f"{module.file}:{error.lineno}: {error.msg}: fix the module") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            names.update(f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
            names.add(base)
    return tuple(sorted(names))


def _absolute(module: _Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - node.level + (1 if module.package else 0)]
    return ".".join([*parts, node.module] if node.module else parts)
