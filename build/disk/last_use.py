"""Last use: a file gets a new modification time when it is read, so that pruning can find unused files."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

RESOLUTION = 3600.0  # seconds; a use within an hour of the last one is not written again


def mark_used(path: Path) -> None:
    """Record the use of a file if it exists and this user may change it."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > RESOLUTION:
            os.utime(path)
