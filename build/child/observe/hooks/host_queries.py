"""Host queries: what differs between machines, users and processes, which no key covers.

Only calls by other code than the standard library are noted: a pool of threads queries the number of processors to
choose its size, and a relative path is completed by the working directory.
"""

from __future__ import annotations

import functools
import getpass
import os
import pathlib
import platform
import resource
import socket
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from precast.build.child.observe.code_locations import is_standard

Note = Callable[[str, str], None]

_QUERIES: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (os, (
        "cpu_count", "process_cpu_count", "sched_getaffinity", "getloadavg", "uname", "getpid", "getppid", "getlogin",
        "getuid", "geteuid", "getgid", "getegid", "getcwd", "getcwdb", "umask",
    )),
    (platform, ("node", "platform", "release", "uname", "version")),
    (socket, ("gethostname", "getfqdn")),
    (getpass, ("getuser",)),
    (resource, ("getrlimit",)),
)  # fmt: skip
_PASSED_ON = ("cwd", "cpu_count")  # functions of the standard library that return such a value as it is


def watch_host_queries(note: Note) -> None:
    """Note each such call."""

    def watch(module: ModuleType, name: str) -> None:
        original = getattr(module, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def watched(*arguments: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            file = caller.f_code.co_filename
            if not (file.startswith("<frozen ") or is_standard(file)) or _is_passed_on(caller):
                note("host", f"{module.__name__}.{name}")
            return original(*arguments, **named)

        setattr(module, name, watched)

    for module, names in _QUERIES:
        for name in names:
            watch(module, name)
    if accessor := getattr(pathlib, "_NormalAccessor", None):  # Python 3.10: it has kept the function itself
        accessor.getcwd = staticmethod(os.getcwd)


def _is_passed_on(caller: FrameType) -> bool:
    """Whether a function of the standard library returns what it queries."""
    if caller.f_code.co_name == "absolute" and caller.f_back is not None:  # Path.cwd of Python 3.12 calls it
        caller = caller.f_back
    return caller.f_code.co_name in _PASSED_ON
