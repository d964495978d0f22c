"""Stamps of files: by them it is seen that a file has changed since it was read."""

from __future__ import annotations

import time
from os import stat

Stamp = tuple[int, int, int, int]
"""A file's time of change, size, number on disk, and the time of the last change of these facts."""
_YOUNG = 3 * 10**9  # nanoseconds: a file that changed so lately may change again within the same stamp


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file as it is now; None where there is none."""
    try:
        facts = stat(path)
    except (OSError, ValueError):
        return None
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_ctime_ns)


def is_young(stamp: Stamp, then: int | None = None) -> bool:
    """Whether a file had changed so lately, now or at a time in nanoseconds, that its stamp proves nothing."""
    return (time.time_ns() if then is None else then) - max(stamp[0], stamp[3]) < _YOUNG
