"""Landlock: the kernel lets this process, and all that it starts, read only below some paths (Linux 5.13 and later).

It needs no privilege and cannot be undone. What it does not cover: whether a file exists, and its size and times, can
be seen anywhere, and so can the names in the folders that Python imports from.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress

from precast.build.child.closed.system_calls import call, set_no_new_privileges

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _READ_FILE, _READ_FOLDER = 1, 4, 8
_OF_FILES = _EXECUTE | _READ_FILE
_ALL = _OF_FILES | _READ_FOLDER
_TCP, _ABSTRACT_SOCKETS = 3, 1  # bind and connect, from version 4; sockets without a file, from version 6


def version() -> int:
    """The version of Landlock in this kernel; 0 without it."""
    try:
        return call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    except OSError:
        return 0


def restrict(readable: Iterable[str], listed: Iterable[str]) -> None:
    """From now on, only what is below ``readable`` can be read or started, and the names below ``listed`` be listed."""
    kernel_version = version()
    fields = (ctypes.c_uint64 * 3)(
        _ALL, _TCP if kernel_version >= 4 else 0, _ABSTRACT_SOCKETS if kernel_version >= 6 else 0
    )
    size = 24 if kernel_version >= 6 else 16 if kernel_version >= 4 else 8
    rules = call(_CREATE, fields, ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for path in readable:
            _allow(rules, path, _ALL)
        for path in listed:
            _allow(rules, path, _READ_FOLDER)
        set_no_new_privileges()
        call(_RESTRICT, rules, ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _allow(rules: int, path: str, access: int) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):  # what is not there cannot be read anyway
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = access if os.path.isdir(path) else access & _OF_FILES
            rule = allowed.to_bytes(8, "little") + file.to_bytes(4, "little")  # packed: 12 bytes
            call(_ADD, rules, ctypes.c_uint32(_PATH_BENEATH), ctypes.c_char_p(rule), ctypes.c_uint32(0))
        finally:
            os.close(file)
