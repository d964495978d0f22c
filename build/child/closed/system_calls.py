"""System calls that Python has no functions for, through the C library."""

from __future__ import annotations

import ctypes
import os
import platform

_C = ctypes.CDLL(None, use_errno=True)
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
NEW_MOUNTS, NEW_GROUPS, NEW_NAME, NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
BIND, RECURSIVE, PRIVATE, NO_ACCESS_TIMES = 0x1000, 0x4000, 0x40000, 0x400
_DETACH = 2
_SET_ATTRIBUTES, _AT_RECURSIVE, _READ_ONLY = 442, 0x8000, 1


def call(number: int, *arguments: object) -> int:
    """A system call by its number; raises OSError."""
    return _checked(_C.syscall(number, *arguments))


def call_by_name(name: str, *arguments: int) -> int:
    """A function of the C library that takes numbers; raises OSError."""
    return _checked(getattr(_C, name)(*arguments))


def control(option: int, *arguments: object) -> bool:
    """An operation of ``prctl`` on this process; False if it failed."""
    words = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in (*arguments, 0, 0, 0, 0)[:4]]
    return bool(_C.prctl(option, *words) >= 0)


def unshare(flags: int) -> None:
    """Put this process into namespaces of its own."""
    _checked(_C.unshare(flags))


def set_no_new_privileges() -> None:
    """Programs that this process starts get no privileges, so that it may restrict itself."""
    if not control(38, 1):
        raise OSError("PR_SET_NO_NEW_PRIVS failed")


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    """Mount a file system, or bind a file or a folder."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _checked(_C.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]))


def make_read_only(path: str) -> None:
    """Make a mount and those below it read-only; before Linux 5.12 it stays as it is."""
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY, 0, 0, 0)
    _C.syscall(_SET_ATTRIBUTES, -100, os.fsencode(path), _AT_RECURSIVE, attributes, ctypes.sizeof(attributes))


def pivot_root(new: str, old: str) -> None:
    """Make a mounted folder the root; the old root is at ``old``, a folder in it."""
    call(_PIVOT_ROOT[platform.machine()], os.fsencode(new), os.fsencode(old))


def detach(path: str) -> None:
    """Remove a mount and those below it from the tree."""
    _checked(_C.umount2(os.fsencode(path), _DETACH))


def set_host_name(name: str) -> None:
    """Set the host's name and its domain in this namespace."""
    _checked(_C.sethostname(name.encode(), len(name)))
    _checked(_C.setdomainname(name.encode(), len(name)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
