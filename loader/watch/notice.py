"""Notices: what is wrong with watching itself, told once on standard error. It is never an error of the program."""

from __future__ import annotations

import contextlib
import os

_MOST = 1000
_told: set[str] = set()


def notice(text: str) -> None:
    """Tell something once a process.

    ``warnings`` would not do: a program may have made them errors.
    """
    if text in _told or len(_told) >= _MOST:
        return
    _told.add(text)
    with contextlib.suppress(OSError):
        os.write(2, f"precast: warning: {text}\n".encode("utf-8", "backslashreplace"))
