"""Installed distributions, read from their folders: this takes a fiftieth of the time to import importlib.metadata."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from precast.loader.import_lock import IMPORT_LOCK

_SUFFIX = ".dist-info"
_LIMIT = 1 << 20
_CHUNK = 1 << 12  # a buffer of _LIMIT for each file would take longer to allocate than the files to read

Distribution = tuple[str, str, str]  # name, version, folder


class Installed:
    """The installed distributions. They are listed at each search for entry points; a version comes from the last list.

    >>> Installed().entry_points("no.such.group"), Installed().version_of("no-such-distribution")
    ((), None)
    """

    def __init__(self) -> None:
        self._listed: tuple[Distribution, ...] = ()
        self._listed_path: tuple[str, ...] | None = None  # the sys.path that the list was made for

    def entry_points(self, group: str) -> tuple[tuple[str, str], ...]:
        """The names and modules of a group of entry points, sorted."""
        if has_other_finders():
            with IMPORT_LOCK:
                from importlib import metadata
            return tuple(sorted({(point.name, point.module) for point in metadata.entry_points(group=group)}))
        head = f"[{group}]".encode()
        entries: set[tuple[str, str]] = set()
        for data in _entry_point_files(self.distributions()):
            if head in data:
                entries.update(_section(data.decode("utf-8", "replace"), group))
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
        distributions = self._listed if self._listed_path == tuple(sys.path) else self.distributions()
        normal = _normal(name)
        return next((version for project, version, _ in distributions if project == normal), None)

    def distributions(self) -> tuple[Distribution, ...]:
        """List every installed distribution; of several with one name, the one that comes first on the path."""
        path, listed = tuple(sys.path), tuple(_distributions())
        self._listed_path, self._listed = path, listed
        return listed


def _distributions() -> Iterator[Distribution]:
    seen: set[str] = set()
    for folder in dict.fromkeys(sys.path):
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith(_SUFFIX)]
        except OSError:  # missing, or a zip file, which has no folder to hold a cache
            continue
        names.sort()
        parts = [name[: -len(_SUFFIX)].rpartition("-") for name in names]
        projects = _normal("/".join([project for project, _, _ in parts])).split(
            "/"
        )  # all at once: no name holds a slash
        for project, (_, _, version), name in zip(projects, parts, names):  # noqa: B905 - an empty list splits into one empty name
            if project and project not in seen:
                seen.add(project)
                yield project, version, f"{folder or '.'}/{name}"


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


def _entry_point_files(distributions: tuple[Distribution, ...]) -> Iterator[bytes]:
    """The files of entry points. Each is opened below the folder of its distribution, which is looked up once."""
    for parent, group in groupby([folder.rpartition("/") for _, _, folder in distributions], itemgetter(0)):
        try:
            held = os.open(parent or "/", os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            for _, _, name in group:
                yield _read(f"{name}/entry_points.txt", held)
        finally:
            os.close(held)


def _read(path: str, folder: int) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return b""
    try:
        data = b""
        while len(data) < _LIMIT and (chunk := os.read(file, _CHUNK)):
            data += chunk
        return data
    except OSError:
        return b""
    finally:
        os.close(file)
