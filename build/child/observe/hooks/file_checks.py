"""File checks: what code queries of files without opening them: whether one exists, its size, where a link points to.

Python reports no events for these, so the functions of ``os`` are replaced. What code of ``site-packages`` checks is
not recorded: it looks for settings and tools in many places. Nor is what the standard library checks to resolve a path,
or to print the source of a frame.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from precast.build.child.observe.code_locations import HIDDEN, is_installed, is_standard, location_of_code

Check = Callable[[str, str], None]

_OBSERVE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

_RESOLVING = frozenset({"realpath", "_joinrealpath", "resolve", "expanduser", "checkcache", "updatecache", "samefile"})
_TIMES = {"getmtime": "os.path.getmtime", "getatime": "os.path.getatime", "getctime": "os.path.getctime"}
_CONTENT = frozenset({"stat", "lstat", "getsize"})
_PRINTING = ("inspect.py", "linecache.py", "traceback.py", "warnings.py", "tempfile.py", "sysconfig.py")


def watch_file_checks(check: Check) -> None:
    """Report each check: its kind, and the path, or the name of a program that is looked up."""

    def watch(name: str, kind: str) -> None:
        original = getattr(os, name)

        @functools.wraps(original)
        def watched(path: Any, *arguments: Any, **named: Any) -> Any:
            if not isinstance(path, int):
                try:
                    callers = _callers(sys._getframe(1))
                    if callers is not None:
                        check(*callers.request(kind, _whole(path, named.get("dir_fd"))))
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

    for name, kind in (("stat", "status"), ("lstat", "status"), ("access", "exists"), ("readlink", "link")):
        watch(name, kind)


class _Callers:
    """The functions of the standard library between a request and the code that made it."""

    __slots__ = ("names", "program")

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.program = ""

    def request(self, kind: str, path: str) -> tuple[str, str]:
        """The kind of a check, by the function that the code called, and what is checked."""
        if self.program and "/" not in self.program:
            return "program", self.program
        for name, function in _TIMES.items():
            if name in self.names:
                return "clock", function
        if kind == "status" and not self.names <= _CONTENT:
            return "exists", path  # ``exists``, ``is_file``, ``is_dir`` and others
        return kind, path


def _callers(frame: FrameType | None) -> _Callers | None:
    """None if the request does not count."""
    callers = _Callers()
    while frame is not None:
        code = frame.f_code
        file, name = code.co_filename, code.co_name
        if not file.startswith("<frozen ") and not is_standard(file):
            hidden = is_installed(file) or file.startswith(_OBSERVE) or location_of_code(frame) is HIDDEN
            return None if hidden else callers
        if name in _RESOLVING or name == "<module>" or file.endswith(_PRINTING) or "importlib" in file:
            return None
        if name == "which":
            program = frame.f_locals.get("cmd")
            callers.program = program if isinstance(program, str) else ""
        callers.names.add(name)
        frame = frame.f_back
    return callers  # of a thread


def _whole(path: Any, folder: int | None) -> str:
    text = os.fsdecode(path)
    return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text) if isinstance(folder, int) else text
