"""Installed distributions, read from their folders: this takes a fiftieth of the time to import importlib.metadata."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from precast.loader.locks import IMPORT_LOCK

_SUFFIX = ".dist-info"
_LIMIT = 1 << 20
_CHUNK = 1 << 12  # a buffer of _LIMIT for each file would take longer to allocate than the files to read

_ENTRY_POINTS = "/entry_points.txt"

Distribution = tuple[str, str, str]  # name, version, folder
Listing = tuple[tuple[str, list[str]], ...]  # folders of the path, with the names of the distributions in each


class Installed:
    """The installed distributions. They are listed at each search for entry points; a version comes from the last list.

    >>> Installed().entry_points("no.such.group"), Installed().version_of("no-such-distribution")
    ((), None)
    """

    def __init__(self) -> None:
        self._listed: Listing = ()
        self._listed_path: tuple[str, ...] | None = None  # the sys.path that the list was made for

    def entry_points(self, group: str) -> tuple[tuple[str, str], ...]:
        """The names and modules of a group of entry points, sorted."""
        if has_other_finders():
            with IMPORT_LOCK:
                from importlib import metadata
            return tuple(sorted({(point.name, point.module) for point in metadata.entry_points(group=group)}))
        head, listing = f"[{group}]".encode(), self._list()
        having = {folder: data for folder, data in _entry_point_files(listing) if head in data}
        if not having:  # as in most environments: which of two distributions of one name counts does not matter then
            return ()
        entries: set[tuple[str, str]] = set()
        for _, _, folder in _distributions(listing):
            if folder in having:
                entries.update(_section(having[folder].decode("utf-8", "replace"), group))
        return tuple(sorted(entries))

    def version_of(self, name: str) -> str | None:
        """The version of an installed distribution, or None."""
        if has_other_finders():
            with IMPORT_LOCK:
                from importlib import metadata
            try:
                return metadata.version(name)
            except metadata.PackageNotFoundError:
                return None
        listing = self._listed if self._listed_path == tuple(sys.path) else self._list()
        normal = _normal(name)
        initial = normal[:1]
        alike = ((folder, [n for n in names if n[:1].lower() == initial]) for folder, names in listing)
        return next((version for project, version, _ in _distributions(alike) if project == normal), None)

    def distributions(self) -> tuple[Distribution, ...]:
        """List every installed distribution; of several with one name, the one that comes first on the path."""
        return tuple(_distributions(self._list()))

    def _list(self) -> Listing:
        path, listing = tuple(sys.path), tuple(_listing())
        self._listed_path, self._listed = path, listing
        return listing


def _listing() -> Iterator[tuple[str, list[str]]]:
    for folder in dict.fromkeys(sys.path):
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith(_SUFFIX)]
        except OSError:  # missing, or a zip file, which has no folder to hold a cache
            continue
        if names:
            yield folder or ".", names


def _distributions(listing: Iterable[tuple[str, list[str]]]) -> Iterator[Distribution]:
    seen: set[str] = set()
    for folder, names in listing:
        ordered = sorted(names)
        parts = [name[: -len(_SUFFIX)].rpartition("-") for name in ordered]
        projects = _normal("/".join([project for project, _, _ in parts])).split(
            "/"
        )  # all at once: no name holds a slash
        for project, (_, _, version), name in zip(projects, parts, ordered):  # noqa: B905 - an empty list splits into one empty name
            if project and project not in seen:
                seen.add(project)
                yield project, version, f"{folder}/{name}"


def locate(module: str) -> Path | None:
    """The folder of a package, found without importing it or its parents: looking at a cache must run no code of it.

    >>> locate("json").name
    'json'
    """
    head, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(head)
        for depth in range(len(rest)):
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = PathFinder.find_spec(".".join((head, *rest[: depth + 1])), spec.submodule_search_locations)
    except (ImportError, ValueError, KeyError):  # KeyError: a folder without __init__.py, below a package
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def has_other_finders() -> bool:
    """Whether something other than ``sys.path`` provides distributions, so that importlib.metadata must be used."""
    return any(
        hasattr(finder, "find_distributions") and getattr(finder, "__name__", "") != "PathFinder"
        for finder in sys.meta_path
    )


def _normal(name: str) -> str:
    name = name.lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name


def _section(text: str, group: str) -> Iterator[tuple[str, str]]:
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            module = value.partition("[")[0].partition(":")[0].strip()
            if name and all(part.isidentifier() for part in module.split(".")):
                yield name.strip(), module


def _entry_point_files(listing: Listing) -> Iterator[tuple[str, bytes]]:
    """The files of entry points, by the folders of their distributions. Each is opened below the folder of all of them,
    which is looked up once."""
    for folder, names in listing:
        try:
            parent = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            for name in names:
                try:
                    file = os.open(name + _ENTRY_POINTS, os.O_RDONLY | os.O_CLOEXEC, dir_fd=parent)
                except OSError:  # most distributions have none
                    continue
                yield f"{folder}/{name}", _read(file)
        finally:
            os.close(parent)


def _read(file: int) -> bytes:
    """What an open file holds; it is closed. A part that is shorter than its buffer is the last one of a file."""
    try:
        data = chunk = os.read(file, _CHUNK)
        while len(chunk) == _CHUNK and len(data) < _LIMIT:
            chunk = os.read(file, _CHUNK)
            data += chunk
        return data
    except OSError:
        return b""
    finally:
        os.close(file)
