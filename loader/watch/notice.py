"""Notices: failures of watching itself, each reported once on standard error. They are never errors of the program."""

from __future__ import annotations

import contextlib
import os

_MOST = 1000
_reported: set[str] = set()


def notice(text: str) -> None:
    """Report something once per process.

    ``warnings`` would not do: a program may have made them errors.
    """
    if text in _reported or len(_reported) >= _MOST:
        return
    _reported.add(text)
    with contextlib.suppress(OSError):
        os.write(2, f"precast: warning: {text}\n".encode("utf-8", "backslashreplace"))
