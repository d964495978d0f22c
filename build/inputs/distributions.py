"""Distributions: which installed distribution a module comes from, and its version, found without importing it."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from precast.build.disk.memo import Memo, memo_key
from precast.build.errors import ToolError
from precast.build.interpreter import HERE, Interpreter


class Distributions:
    """The installed distributions by top module. Reading their metadata takes long, so the memo keeps the table."""

    def __init__(self, memo: Memo | None = None, interpreter: Interpreter = HERE) -> None:
        self._memo, self._interpreter = memo, interpreter
        self._table: dict[str, list[str]] | None = None
        self._versions: dict[str, str] = {}
        self._lists: dict[str, tuple[Path, str]] = {}

    def versions(self, modules: Mapping[str, Collection[Path]]) -> dict[str, str]:
        """The version of every distribution that one of these files comes from; they are listed by top module.

        Several distributions may share a top module: one that has none of the files does not count.

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
        """Whether one of the files is the distribution's, by its list of files; one that lists none of the module's
        (an editable install) is taken to own them all."""
        try:
            found = self._interpreter.distribution(name)
        except ToolError:
            return False
        if name not in self._lists:
            self._lists[name] = (Path(str(found.locate_file(""))).resolve(), "\n" + (found.read_text("RECORD") or ""))
        root, listed = self._lists[name]
        inside = [f for f in files if f.is_relative_to(root)]
        return f"\n{module}/" not in listed or any(f"\n{f.relative_to(root).as_posix()}," in listed for f in inside)

    def _version(self, name: str) -> str:
        if name not in self._versions:
            self._versions[name] = self._interpreter.version_of(name)
        return self._versions[name]

    def _by_module(self) -> dict[str, list[str]]:
        if self._table is None:
            key = memo_key(_installed(self._interpreter.folders))
            noted = self._memo.get("installed", key) if self._memo else None
            table = _table(noted) or _read(self._interpreter)
            if self._memo and not _table(noted):
                self._memo.put("installed", key, table)
            self._table = table
        return self._table


def _read(interpreter: Interpreter) -> dict[str, list[str]]:
    """Every distribution by its top modules. ``packages_distributions`` of Python 3.10 knows only those that name them
    in a file that few builders write."""
    table: dict[str, set[str]] = {}
    for one in interpreter.distributions():
        name = one.metadata["Name"]
        for module in _top_modules(one):
            table.setdefault(module, set()).add(name)
    return {module: sorted(names) for module, names in sorted(table.items())}


def _top_modules(one: Distribution) -> set[str]:
    declared = (one.read_text("top_level.txt") or "").split()
    return set(declared) or {name for path in _files(one) if (name := _top_module(path)) and name.isidentifier()}


def _files(one: Distribution) -> Iterator[str]:
    """The paths of a distribution's files. Those in a RECORD are read as text: a Path for each takes much longer."""
    record = one.read_text("RECORD")
    if record is None:
        return map(str, one.files or ())
    return (row[0] for row in csv.reader(record.splitlines()) if row)


def _top_module(path: str) -> str | None:
    folder, slash, _ = path.partition("/")
    return folder if slash else inspect.getmodulename(path)


def _installed(folders: Iterable[str]) -> list[str]:
    """The metadata folders on the path: when one is added, removed or of another version, the table is read again."""
    found = []
    for folder in folders:
        try:
            found += [p.name for p in Path(folder).iterdir() if p.suffix in (".dist-info", ".egg-info")]
        except OSError:
            continue
    return sorted(found)


def _table(value: Any) -> dict[str, list[str]]:
    """The table that an entry of the memo holds; empty where it holds something else."""
    if not isinstance(value, dict):
        return {}
    right = all(isinstance(names, list) and all(isinstance(n, str) for n in names) for names in value.values())
    return value if right else {}
