"""Roots: the folders that names of files are relative to, so that checkouts can move and machines can share a store."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from precast.build import interpreter

PYTHON = "python"
TEMPORARY = "temporary"
WORKING = "cwd"
_SITES = ("site-packages", "dist-packages")


class Roots:
    """The folders that a child process imports from, the user's home, and the folder of temporary files.

    ``search`` has the folders of the manifest, ``path`` those that Python searches after them. A file is named by the
    innermost root that has it: ``search/norm.py``, ``search2/...`` for the second such folder, ``site/...`` for
    folders of installed distributions, ``path/...`` for other folders of Python's path (``PYTHONPATH``, ``.pth``
    files), ``~/...``, or its absolute path. ``environment`` is that of the child process.

    >>> roots = Roots([Path("/work/kernels")], ["/opt/tools"], {"HOME": "/home/me"})
    >>> roots.portable("/work/kernels/a/norm.py"), roots.portable("/home/me/.rc"), roots.portable("/etc/rc")
    ('search/a/norm.py', '~/.rc', '/etc/rc')
    >>> roots.path_of("path/data.json")
    '/opt/tools/data.json'
    """

    def __init__(
        self,
        search: Sequence[Path | str],
        path: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self.search = tuple(os.path.abspath(folder) for folder in search)
        self.path = tuple(dict.fromkeys(os.path.abspath(folder) for folder in path))
        self.environment = environment
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
        self._folders.setdefault("~", os.path.abspath(environment.get("HOME") or Path.home()))
        self._folders[TEMPORARY] = os.path.abspath(environment.get("TMPDIR") or "/tmp")
        self._prefixes = _longest_first([*((PYTHON, folder) for folder in standard), *self._folders.items()])
        self._folders[WORKING] = _working_folder()  # only of files that code names relative to it

    @classmethod
    def here(cls, search: Sequence[Path | str], environment: Mapping[str, str]) -> Roots:
        """The roots of a child process of this one with these search folders and this environment."""
        first = sys.path[:1] if not getattr(sys.flags, "safe_path", False) else []
        started = {os.getcwd(), os.path.dirname(os.path.realpath(sys.argv[0]))}  # a child does not import from there
        path = [
            folder for folder in sys.path if folder and not (folder in first and os.path.realpath(folder) in started)
        ]
        return cls(search, path, environment)

    def place(self, path: str) -> tuple[str, str]:  # words: allow
        """The root of an absolute path, and the rest; an empty root if there is none.

        >>> Roots([], [], {"HOME": "/home/me"}).place("/home/me/.config/rc")
        ('~', '.config/rc')
        """
        for prefix, label in self._prefixes:
            if path.startswith(prefix):
                return label, path[len(prefix) :]
            if path == prefix[:-1]:
                return label, ""
        return "", path

    def portable(self, path: str) -> str:
        """The name of an absolute path. That of a temporary file is its path."""
        label, rest = self.place(path)
        return path if label == TEMPORARY else "/".join(filter(None, (label, rest))) if label else path

    def origin(self, path: str) -> str:
        """The name of an absolute path of a module. Which folder of Python's path has it does not matter: a worker of
        a cluster may have more of them.

        >>> Roots([], ["/opt/tools", "/opt/mine"], {"HOME": "/root"}).origin("/opt/mine/norm.py")
        'path/norm.py'
        """
        label, _, rest = self.portable(path).partition("/")
        return "/".join(filter(None, (re.sub(r"^(path|site)[0-9]+$", r"\1", label), rest))) if label else path

    def working_name(self, path: str) -> str:
        """The name of an absolute path relative to the folder that the build was started in; empty if it is not in it.

        >>> Roots([], [], {}).working_name(os.path.join(os.getcwd(), "tiles.json"))
        'cwd/tiles.json'
        """
        folder = self._folders[WORKING]
        inside = path == folder or path.startswith(os.path.join(folder, ""))
        return os.path.join(WORKING, os.path.relpath(path, folder)).removesuffix("/.") if inside else ""

    @property
    def programs(self) -> tuple[str, ...]:
        """The folders that programs are looked up in."""
        return tuple(self.environment.get("PATH", os.defpath).split(os.pathsep))

    def is_above(self, path: str) -> bool:
        """Whether a path is one of these folders, or one that has it.

        >>> Roots([Path("/work/kernels")], [], {}).is_above("/work"), Roots([], [], {}).is_above("/work/kernels/a")
        (True, False)
        """
        start = os.path.join(path, "")
        return any(prefix.startswith(start) for prefix, _ in self._prefixes)

    @property
    def sites(self) -> tuple[str, ...]:
        """The folders that distributions are installed into."""
        return tuple(folder for folder in self.path if self._label(folder) == "site")

    def is_site(self, path: str) -> bool:
        """Whether a path is in a folder that distributions are installed into.

        >>> Roots([], ["/usr/lib/python3/dist-packages"], {}).is_site("/usr/lib/python3/dist-packages/yaml/__init__.py")
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


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def _longest_first(folders: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Prefixes with their roots, longest first. A linked folder has both of its paths."""
    prefixes: dict[str, str] = {}
    for label, folder in folders:
        for path in (folder, os.path.realpath(folder)):
            prefixes.setdefault(os.path.join(path, ""), label)
    prefixes.pop("/", None)
    return sorted(prefixes.items(), key=lambda row: -len(row[0]))
