"""Loaded modules of this process, and the libraries that are mapped into it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from precast.build.child.observe.code_locations import is_own, is_standard

_LONGEST = 8192
Row = tuple[str, str | None, bool]


class LoadedModules:
    """The modules of this process.

    >>> found = LoadedModules()
    >>> [file for name, file, package in found.new_rows() if name == "json"] == [__import__("json").__file__]
    True
    >>> found.new_rows()
    []
    """

    def __init__(self) -> None:
        self.complete = True
        self.files: set[str] = set()  # of all modules, precast's too
        self._known: dict[str, object] = {}

    def new_rows(self) -> list[Row]:
        """The modules that were loaded since the last call, with their file (None for a namespace package) and whether
        each is a package.

        Left out are built-in modules, modules in packages of the standard library, modules without a file that were
        made at run time, and precast's own code.
        """
        rows = []
        for name, module in list(sys.modules.items()):
            if self._known.get(name, self) is module:
                continue
            self._known[name] = module
            file = _file(module)
            row = _row(name, module, file)
            if file is not None:
                self.files.add(file)
            if row is not None and is_text(name, file or ""):
                rows.append(row)
            elif row is not None:
                self.complete = False
        return sorted(rows, key=lambda row: row[0])


class LastFinder:
    """The last of the import system's finders, which gets the names that no other one found."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Report the name, which is missing."""
        self._note(name)


def is_text(*values: str) -> bool:
    """Whether these can be encoded as UTF-8 and are not too long: names of files may be arbitrary bytes.

    >>> is_text("/kernels/größe.py"), is_text("/kernels/\\udcff.py")
    (True, False)
    """
    for value in values:
        surrogates = not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value)
        if len(value) > _LONGEST or "\0" in value or surrogates:
            return False
    return True


def _row(name: str, module: object, file: str | None) -> Row | None:
    if module is None or is_own(name) or name in ("__main__", "__mp_main__"):
        return None
    spec = _attributes(module).get("__spec__")
    package = getattr(spec, "submodule_search_locations", None) is not None
    if file is None:
        return (name, None, True) if package and getattr(spec, "origin", None) is None else None
    return None if is_standard(file) and "." in name else (name, file, package)


def _file(module: object) -> str | None:
    facts = _attributes(module)
    spec = facts.get("__spec__")
    file = getattr(spec, "origin", None) if getattr(spec, "has_location", False) else facts.get("__file__")
    return os.path.abspath(file) if isinstance(file, str) else None


def _attributes(module: object) -> dict[str, Any]:
    """The attributes of a module, read without its ``__getattr__``, which may import more modules."""
    try:
        attributes = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return attributes if isinstance(attributes, dict) else {}


def loaded_libraries() -> set[str]:
    """The files of the libraries that are mapped into this process.

    >>> all(path.startswith("/") for path in loaded_libraries())
    True
    """
    paths = set()
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            start = line.find("/")
            if start > 0 and ".so" in line:
                path = line[start:].rstrip("\n")
                if not path.endswith("(deleted)") and not path.startswith(("/memfd:", "/dev/", "/SYSV")):
                    paths.add(path)
    return paths
