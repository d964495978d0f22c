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
    files), ``~/...``, or its absolute path. The last two kinds of folders count only if they have such a file: a
    Dask worker, or another machine, has further ones on its path.

    >>> roots = Roots([Path("/work/kernels")], ["/opt/tools"], "/home/me")
    >>> roots.portable("/work/kernels/a/norm.py"), roots.portable("/home/me/.rc"), roots.portable("/etc/rc")
    ('search/a/norm.py', '~/.rc', '/etc/rc')
    >>> roots.path_of("path/data.json"), roots.path_of("path2/data.json")
    ('/opt/tools/data.json', None)
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
        self._folders |= {_numbered("search", number): folder for number, folder in enumerate(self.search)}
        self._folders["~"] = os.path.abspath(home or os.path.expanduser("~"))
        labels = [(self._label(folder), folder) for folder in self.path]
        self._on_path = {kind: [folder for label, folder in labels if label == kind] for kind in ("site", "path")}
        standard = [(label, folder) for label, folder in labels if label == PYTHON]
        on_path = [(label, folder) for label, folder in labels if label != PYTHON]
        searched = [item for item in self._folders.items() if item[0] != "~"]
        self._prefixes = _longest_first([*standard, *searched, *on_path, ("~", self._folders["~"])])

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
        if label in self._on_path:
            files = self._files(label, rest)
            same = (number for number, file in enumerate(files) if path in (file, _real(file, rest)))
            label = _numbered(label, next(same, 0))
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
        kind = label.rstrip("0123456789")
        if folders := self._on_path.get(kind):
            files = self._files(kind, rest) or [os.path.join(folders[0], rest)]
            number = int(label[len(kind) :] or 1)
            return files[number - 1] if 0 < number <= len(files) else None
        folder = self._folders.get(label)
        return os.path.join(folder, rest) if folder is not None and rest else folder

    def _files(self, kind: str, rest: str) -> list[str]:
        """The files of this name in the folders of one kind, in Python's order."""
        files = (os.path.join(folder, rest) if rest else folder for folder in self._on_path[kind])
        return [file for file in files if os.path.lexists(file)]

    def _label(self, folder: str) -> str:
        if os.path.basename(folder) in _SITES:
            return "site"
        standard = os.path.join(self._folders[PYTHON], "")
        inside = os.path.join(folder, "").startswith((standard, os.path.realpath(standard)))
        return PYTHON if inside or re.fullmatch(r"python3[0-9]+\.zip", os.path.basename(folder)) else "path"


def _numbered(label: str, number: int) -> str:
    return label if number == 0 else f"{label}{number + 1}"


def _real(file: str, rest: str) -> str:
    """The path of a file below the real folder of its root; links below that stay."""
    folder = os.path.realpath(file.removesuffix(rest))
    return os.path.join(folder, rest) if rest else folder


def _longest_first(folders: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Prefixes with their roots, longest first. A linked folder has both of its paths."""
    prefixes: dict[str, str] = {}
    for label, folder in folders:
        for path in (folder, os.path.realpath(folder)):
            prefixes.setdefault(os.path.join(path, ""), label)
    prefixes.pop("/", None)
    return sorted(prefixes.items(), key=lambda row: -len(row[0]))
