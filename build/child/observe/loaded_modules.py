"""Loaded modules of this process, and the libraries that are mapped into it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from precast.build.child.observe.code_locations import is_own, is_standard

_LONGEST = 8192
_MAPPED = re.compile(rb"^[^/\n]+(/[^\n]*\.so[^\n]*)", re.MULTILINE)
_NO_FILES = ("/memfd:", "/dev/", "/SYSV")
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
        self._sought: set[str] = set()
        self._facts: dict[str, tuple[object, _Facts]] = {}

    def prepare(self) -> None:
        """Take the facts of the modules so far, which the processes that are forked from this one then have."""
        self._facts = {name: (module, _facts(name, module)) for name, module in list(sys.modules.items())}

    def seek(self, name: str) -> None:
        """A module is about to be loaded, if there is one of this name."""
        self._sought.add(name)

    def new_rows(self) -> list[Row]:
        """The modules that were loaded since the last call, with their file (None for a namespace package) and whether
        each is a package.

        Left out are built-in modules, modules in packages of the standard library, modules without a file that were
        made at run time, and precast's own code.
        """
        rows = []
        for name, module in self._new():
            noted = self._facts.get(name)
            facts = noted[1] if noted is not None and noted[0] is module else _facts(name, module)
            if facts.file is not None:
                self.files.add(facts.file)
            if facts.row is not None and facts.is_text:
                rows.append(facts.row)
            elif facts.row is not None:
                self.complete = False
        return sorted(rows, key=lambda row: row[0])

    def _new(self) -> Sequence[tuple[str, object]]:
        """The modules that are other ones than at the last call. Where those that were sought are all, only they are
        looked at: in a forked process, to look at an object is to copy its page."""
        modules, before = sys.modules, self._known
        sought = [(name, modules[name]) for name in self._sought if name in modules]
        self._sought.clear()
        if len(modules) != len(before) + sum(name not in before for name, _ in sought):
            self._known = dict(modules)
            return [(name, module) for name, module in self._known.items() if before.get(name, self) is not module]
        new = [(name, module) for name, module in sought if before.get(name, self) is not module]
        before.update(new)
        return new


class NoFinder:
    """A finder of the import system that finds nothing: as the first one it notes all names that are sought, and as the
    last one those that no other finder found."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note the name."""
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


class _Facts(NamedTuple):
    file: str | None
    row: Row | None
    is_text: bool


def _facts(name: str, module: object) -> _Facts:
    file = _file(module)
    row = _row(name, module, file)
    return _Facts(file, row, row is None or is_text(name, file or ""))


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
    with open("/proc/self/maps", "rb") as file:
        paths = {line.decode(errors="replace") for line in _MAPPED.findall(file.read())}
    return {path for path in paths if not path.endswith("(deleted)") and not path.startswith(_NO_FILES)}
