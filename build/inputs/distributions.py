"""Distributions: the installed distribution that a module comes from, and its version, without importing it."""

from __future__ import annotations

import csv
import inspect
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from precast.build.disk.memo import Memo, memo_key
from precast.build.errors import ToolError
from precast.build.interpreter import distribution, version_of


class Distributions:
    """The installed distributions by top module. Reading their metadata is slow, so the memo keeps the table."""

    def __init__(self, memo: Memo | None = None) -> None:
        self._memo = memo
        self._table: dict[str, list[str]] | None = None
        self._versions: dict[str, str] = {}
        self._lists: dict[str, tuple[Path, str]] = {}

    def versions(self, modules: Mapping[str, Collection[Path]]) -> dict[str, str]:
        """The version of every distribution that one of these files comes from. The files are given by top module.

        Several distributions may share a top module: one without any of the files is ignored.

        >>> import yaml
        >>> list(Distributions().versions({"yaml": [Path(yaml.__file__).resolve()], "no_such_module": []}))
        ['PyYAML']
        """
        names = {
            name
            for module, files in modules.items()
            for name in self._by_module().get(module, [])
            if self._owns(name, module, files)
        }
        return {name: self._version(name) for name in sorted(names)}

    def _owns(self, name: str, module: str, files: Collection[Path]) -> bool:
        """Whether a distribution lists one of the files; one that lists no file of the module (an editable install) is
        assumed to own them all."""
        try:
            installed = distribution(name)
        except ToolError:
            return False
        if name not in self._lists:
            self._lists[name] = (
                Path(str(installed.locate_file(""))).resolve(),
                "\n" + (installed.read_text("RECORD") or ""),
            )
        root, listed = self._lists[name]
        inside = [f for f in files if f.is_relative_to(root)]
        return f"\n{module}/" not in listed or any(f"\n{f.relative_to(root).as_posix()}," in listed for f in inside)

    def _version(self, name: str) -> str:
        if name not in self._versions:
            self._versions[name] = version_of(name)
        return self._versions[name]

    def _by_module(self) -> dict[str, list[str]]:
        if self._table is None:
            key = memo_key(_installed(filter(None, sys.path)))
            noted = self._memo.get("installed", key) if self._memo else None
            table = _table(noted) or _read()
            if self._memo and not _table(noted):
                self._memo.put("installed", key, table)
            self._table = table
        return self._table


def _read() -> dict[str, list[str]]:
    """Every distribution by its top modules. ``packages_distributions`` of Python 3.10 has only those with a file that
    few builders write."""
    table: dict[str, set[str]] = {}
    for installed in distributions():
        name = installed.metadata["Name"]
        for module in _top_modules(installed):
            table.setdefault(module, set()).add(name)
    return {module: sorted(names) for module, names in sorted(table.items())}


def _top_modules(distribution: Distribution) -> set[str]:
    declared = (distribution.read_text("top_level.txt") or "").split()
    return set(declared) or {
        name for path in _files(distribution) if (name := _top_module(path)) and name.isidentifier()
    }


def _files(distribution: Distribution) -> Iterator[str]:
    """The paths of a distribution's files. A RECORD is read as text: making a Path for each takes much longer."""
    record = distribution.read_text("RECORD")
    if record is None:
        return map(str, distribution.files or ())
    return (row[0] for row in csv.reader(record.splitlines()) if row)


def _top_module(path: str) -> str | None:
    folder, slash, _ = path.partition("/")
    return folder if slash else inspect.getmodulename(path)


def _installed(folders: Iterable[str]) -> list[str]:
    """The metadata folders on the path: when one of them changes, the table is read again."""
    names = []
    for folder in folders:
        try:
            names += [p.name for p in Path(folder).iterdir() if p.suffix in (".dist-info", ".egg-info")]
        except OSError:
            continue
    return sorted(names)


def _table(value: Any) -> dict[str, list[str]]:
    """The table in an entry of the memo; empty if the entry is invalid."""
    if not isinstance(value, dict):
        return {}
    right = all(isinstance(names, list) and all(isinstance(n, str) for n in names) for names in value.values())
    return value if right else {}
