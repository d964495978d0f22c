"""Distributions: which installed distribution a module comes from, and its version, found without importing it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from precast.build.notes import Notes, key_of


class Distributions:
    """What is installed, by the name of the top module. Reading that takes a while, so it is noted."""

    def __init__(self, notes: Notes | None = None) -> None:
        self._notes = notes
        self._table: dict[str, list[str]] | None = None
        self._versions: dict[str, str] = {}

    def versions(self, modules: Iterable[str]) -> dict[str, str]:
        """The version of every distribution that has one of these top modules; a module of none is left out.

        >>> list(Distributions().versions(["yaml", "no_such_module"]))
        ['PyYAML']
        """
        names = {name for module in modules for name in self._by_module().get(module, [])}
        return {name: self._version(name) for name in sorted(names)}

    def _version(self, name: str) -> str:
        if name not in self._versions:
            try:
                self._versions[name] = version(name)
            except PackageNotFoundError:
                self._versions[name] = ""
        return self._versions[name]

    def _by_module(self) -> dict[str, list[str]]:
        if self._table is None:
            key = key_of(_installed())
            noted = self._notes.get("installed", key) if self._notes else None
            table = _table(noted) or _read()
            if self._notes and not _table(noted):
                self._notes.put("installed", key, table)
            self._table = table
        return self._table


def _read() -> dict[str, list[str]]:
    return {module: sorted(set(names)) for module, names in packages_distributions().items()}


def _installed() -> list[str]:
    """The metadata folders on the path: when one comes or goes, or is of another version, the table is read anew."""
    found = []
    for folder in filter(None, sys.path):
        try:
            found += [p.name for p in Path(folder).iterdir() if p.suffix in (".dist-info", ".egg-info")]
        except OSError:
            continue
    return sorted(found)


def _table(value: Any) -> dict[str, list[str]]:
    """The table that a note holds; empty where it holds something else."""
    if not isinstance(value, dict):
        return {}
    right = all(isinstance(names, list) and all(isinstance(n, str) for n in names) for names in value.values())
    return value if right else {}
