"""File checks: what code queries of files without opening them: whether one exists, its size, where a link points to.

Python reports no events for these, so the functions of ``os`` are replaced. What code of ``site-packages`` checks is
not recorded: it looks for settings and tools in many places. Nor is what the standard library checks to resolve a path,
or to print the source of a frame.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from precast.build.child.observe.code_locations import HIDDEN, is_installed, is_standard, location_of_code

Check = Callable[[str, str], None]

_OBSERVE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

_RESOLVING = frozenset({"realpath", "_joinrealpath", "resolve", "expanduser"})
_TIMES = {"getmtime": "os.path.getmtime", "getatime": "os.path.getatime", "getctime": "os.path.getctime"}
_CONTENT = frozenset({"stat", "lstat", "getsize"})
_PRINTING = ("inspect.py", "traceback.py", "warnings.py", "tempfile.py", "sysconfig.py")
_STAMPS = re.compile("st_[mac]time")
_OTHERS = frozenset({"st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "samefile", "samestat"})


def watch_file_checks(check: Check) -> None:
    """Report each check: its kind, and the path, or the name of a program that is looked up."""

    def watch(name: str, kind: str) -> None:
        original = getattr(os, name)

        @functools.wraps(original)
        def watched(path: Any, *arguments: Any, **named: Any) -> Any:
            if not isinstance(path, int):
                try:
                    callers = _callers(sys._getframe(1), kind)
                    if callers is not None:
                        for request in callers.requests(kind, _whole(path, named.get("dir_fd"))):
                            check(*request)
                except (TypeError, ValueError, OSError):
                    pass  # the function itself reports what is wrong
            return original(path, *arguments, **named)

        for functions in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if original in functions:
                functions.add(watched)
        setattr(os, name, watched)
        accessor = getattr(pathlib, "_NormalAccessor", None)  # of Python 3.10
        if accessor is not None and hasattr(accessor, name):
            setattr(accessor, name, staticmethod(watched))

    facts_of = os.fstat

    @functools.wraps(facts_of)
    def watched_descriptor(file: int) -> os.stat_result:
        callers = _callers(sys._getframe(1))
        if callers is not None and callers.names <= _CONTENT:
            for request in callers._facts(""):
                if request[0] != "exists":
                    check(*request)
        return facts_of(file)

    os.fstat = watched_descriptor  # type: ignore[assignment]
    for name, kind in (("stat", "status"), ("lstat", "status"), ("access", "exists"), ("readlink", "link")):
        watch(name, kind)


class _Callers:
    """The functions of the standard library between a request and the code that made it."""

    __slots__ = ("attributes", "names", "program")

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.attributes: tuple[str, ...] = ()  # of any value, in the code that made the request
        self.program = ""

    def requests(self, kind: str, path: str) -> Iterator[tuple[str, str]]:
        """The kind of a check, by the function that the code called, and what is checked; and which facts of a file
        beside its content that code may use."""
        if self.program and "/" not in self.program:
            yield "program", self.program
            return
        for name, function in _TIMES.items():
            if name in self.names:
                yield "clock", function
                return
        content = kind == "status" and self.names <= _CONTENT
        if kind == "status" and not content:
            yield "exists", path  # ``exists``, ``is_file``, ``is_dir`` and others
            if "samefile" in self.names:
                yield "link", path
            return
        yield kind, path
        if content:
            yield from self._facts(path)

    def _facts(self, path: str) -> Iterator[tuple[str, str]]:
        for name in self.attributes:
            if _STAMPS.match(name):
                yield "clock", f"os.stat {name}"
            elif name in _OTHERS:
                yield "host", f"os.stat {name}"
            elif name == "st_mode":
                yield "exists", path


def _callers(frame: FrameType | None, kind: str = "status") -> _Callers | None:
    """None if the request does not count. To resolve a path, Python queries each folder on it: its links count."""
    callers = _Callers()
    while frame is not None:
        code = frame.f_code
        file, name = code.co_filename, code.co_name
        if not file.startswith("<frozen ") and not is_standard(file):
            hidden = is_installed(file) or file.startswith(_OBSERVE) or location_of_code(frame) is HIDDEN
            callers.attributes = code.co_names
            return None if hidden else callers
        if (name in _RESOLVING and kind != "link") or name == "<module>" or file.endswith(_PRINTING):
            return None
        if "importlib" in file:
            return None
        if name == "which":
            callers.program = _usual_program(frame.f_locals)
        callers.names.add(name)
        frame = frame.f_back
    return callers  # of a thread


def _usual_program(variables: Mapping[str, Any]) -> str:
    """The name that ``shutil.which`` looks up in PATH; empty if it was given other folders."""
    program, folders = variables.get("cmd"), variables.get("path")
    usual = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return program if isinstance(program, str) and (not isinstance(folders, list) or folders == usual) else ""


def _whole(path: Any, folder: int | None) -> str:
    text = os.fsdecode(path)
    return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text) if isinstance(folder, int) else text
