"""Roots: the folders that names of files are relative to, so that checkouts can move and machines can share a store."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from precast.build import interpreter

PYTHON = "python"
_SITES = ("site-packages", "dist-packages")


class Roots:
    """The folders that a child process imports from, and the user's home.

    ``search`` has the folders of the manifest, ``path`` those that Python searches after them. A file is named by the
    innermost root that has it: ``search/norm.py``, ``search2/...`` for the second such folder, ``site/...`` for
    folders of installed distributions, ``path/...`` for other folders of Python's path (``PYTHONPATH``, ``.pth``
    files), ``~/...``, or its absolute path.

    >>> roots = Roots([Path("/work/kernels")], ["/opt/tools"], "/home/me")
    >>> roots.portable("/work/kernels/a/norm.py"), roots.portable("/home/me/.rc"), roots.portable("/etc/rc")
    ('search/a/norm.py', '~/.rc', '/etc/rc')
    >>> roots.path_of("path/data.json")
    '/opt/tools/data.json'
    """

    def __init__(
        self,
        search: Iterable[Path | str],
        path: Iterable[str],
        home: str = "",
    ) -> None:
        self.search = tuple(os.path.abspath(folder) for folder in search)
        self.path = tuple(dict.fromkeys(os.path.abspath(folder) for folder in path))
        self._folders = {PYTHON: interpreter.STANDARD}
        numbers: dict[str, int] = {}
        standard: list[str] = []
        searched = [("search", folder) for folder in self.search]
        for label, folder in [*searched, *((self._label(folder), folder) for folder in self.path)]:
            if label == PYTHON:
                standard.append(folder)
                continue
            numbers[label] = number = numbers.get(label, 0) + 1
            self._folders[label if number == 1 else f"{label}{number}"] = folder
        self._folders.setdefault("~", os.path.abspath(home or os.path.expanduser("~")))
        self._prefixes = _longest_first([*((PYTHON, folder) for folder in standard), *self._folders.items()])

    @classmethod
    def here(cls, search: Iterable[Path | str]) -> Roots:
        """The roots of a child process of this one with these search folders."""
        first = sys.path[:1] if not getattr(sys.flags, "safe_path", False) else []
        started = {os.getcwd(), os.path.dirname(os.path.realpath(sys.argv[0]))}  # a child does not import from there
        path = [
            folder for folder in sys.path if folder and not (folder in first and os.path.realpath(folder) in started)
        ]
        return cls(search, path)

    def place(self, path: str) -> tuple[str, str]:  # words: allow
        """The root of an absolute path, and the rest; an empty root if there is none.

        >>> Roots([], [], "/home/me").place("/home/me/.config/rc")
        ('~', '.config/rc')
        """
        for prefix, label in self._prefixes:
            if path.startswith(prefix):
                return label, path[len(prefix) :]
            if path == prefix[:-1]:
                return label, ""
        return "", path

    def portable(self, path: str) -> str:
        """The name of an absolute path."""
        label, rest = self.place(path)
        return "/".join(filter(None, (label, rest))) if label else path

    @property
    def sites(self) -> tuple[str, ...]:
        """The folders that distributions are installed into."""
        return tuple(folder for folder in self.path if self._label(folder) == "site")

    def is_site(self, path: str) -> bool:
        """Whether a path is in a folder that distributions are installed into.

        >>> Roots([], ["/usr/lib/python3/dist-packages"]).is_site("/usr/lib/python3/dist-packages/yaml/__init__.py")
        True
        """
        return any(f"/{name}/" in path for name in _SITES)

    def path_of(self, name: str) -> str | None:
        """The absolute path of a name; None if there is no such root."""
        if name.startswith("/"):
            return name
        label, _, rest = name.partition("/")
        folder = self._folders.get(label)
        return os.path.join(folder, rest) if folder is not None and rest else folder

    def _label(self, folder: str) -> str:
        if os.path.basename(folder) in _SITES:
            return "site"
        standard = os.path.join(self._folders[PYTHON], "")
        inside = os.path.join(folder, "").startswith((standard, os.path.realpath(standard)))
        return PYTHON if inside or re.fullmatch(r"python3[0-9]+\.zip", os.path.basename(folder)) else "path"


def _longest_first(folders: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Prefixes with their roots, longest first. A linked folder has both of its paths."""
    prefixes: dict[str, str] = {}
    for label, folder in folders:
        for path in (folder, os.path.realpath(folder)):
            prefixes.setdefault(os.path.join(path, ""), label)
    prefixes.pop("/", None)
    return sorted(prefixes.items(), key=lambda row: -len(row[0]))
