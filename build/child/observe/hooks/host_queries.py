"""Host queries: what differs between machines, users and processes, which no key covers.

Only calls by other code than the standard library are noted: a pool of threads queries the number of processors to
choose its size, and a relative path is completed by the working directory.
"""

from __future__ import annotations

import functools
import getpass
import grp
import os
import pathlib
import platform
import pwd
import resource
import signal
import socket
import sys
import uuid
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from precast.build.child.observe.code_locations import is_standard
from precast.build.child.observe.late_import import after_import

Note = Callable[[str, str], None]

_QUERIES: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (os, (
        "cpu_count", "process_cpu_count", "sched_getaffinity", "getloadavg", "uname", "getpid", "getppid", "getlogin",
        "getuid", "geteuid", "getgid", "getegid", "getcwd", "getcwdb", "umask", "getgroups", "getresuid", "getresgid",
        "getpgid", "getpgrp", "getsid", "getpriority", "nice", "times", "statvfs", "getxattr", "listxattr", "isatty",
        "get_terminal_size",
    )),
    (platform, ("node", "platform", "release", "uname", "version")),
    (socket, ("gethostname", "getfqdn", "if_nameindex", "if_nametoindex", "if_indextoname")),
    (getpass, ("getuser",)),
    (resource, ("getrlimit", "getrusage", "prlimit")),
    (pwd, ("getpwall", "getpwnam", "getpwuid")),
    (grp, ("getgrall", "getgrgid", "getgrnam")),
    (uuid, ("getnode",)),
    (signal, ("getsignal",)),
)  # fmt: skip
_SIZES = ("SC_NPROCESSORS_ONLN", "SC_NPROCESSORS_CONF", "SC_PHYS_PAGES", "SC_AVPHYS_PAGES", 83, 84, 85, 86)
_PASSED_ON = (
    "cwd",
    "cpu_count",
    "disk_usage",
    "owner",
    "group",
)  # functions of the standard library that return such a value as it is


def watch_host_queries(note: Note) -> None:
    """Note each such call."""

    def watch(module: ModuleType, name: str, when: Callable[[Any], bool] = lambda _: True) -> None:
        original = getattr(module, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def watched(*arguments: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            file = caller.f_code.co_filename
            if when(arguments) and (not _is_standard_code(file) or _is_passed_on(caller)):
                note("host", f"{module.__name__}.{name}")
            return original(*arguments, **named)

        setattr(module, name, watched)

    for module, names in _QUERIES:
        for name in names:
            watch(module, name)
    watch(os, "sysconf", lambda arguments: arguments[:1] != () and arguments[0] in _SIZES)
    after_import("_posixshmem", lambda module: _watch_shared_memory(module, note))
    if accessor := getattr(pathlib, "_NormalAccessor", None):  # Python 3.10: it has kept the function itself
        accessor.getcwd = staticmethod(os.getcwd)


def _is_standard_code(file: str) -> bool:
    return file.startswith("<frozen ") or is_standard(file)


def _watch_shared_memory(module: Any, note: Note) -> None:
    """Shared memory of other processes; what this process makes itself is its own."""
    original = module.shm_open

    @functools.wraps(original)
    def watched(path: Any, *arguments: Any, **named: Any) -> Any:
        flags = named.get("flags", arguments[0] if arguments else 0)
        if not flags & os.O_CREAT:
            note("host", f"shared memory {path}")
        return original(path, *arguments, **named)

    module.shm_open = watched


def _is_passed_on(caller: FrameType) -> bool:
    """Whether a function of the standard library returns what it queries."""
    if caller.f_code.co_name == "absolute" and caller.f_back is not None:  # Path.cwd of Python 3.12 calls it
        caller = caller.f_back
    return caller.f_code.co_name in _PASSED_ON
