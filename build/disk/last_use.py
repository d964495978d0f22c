"""Last use: a file that is read gets a new modification time, so that pruning knows what nothing has used for long."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

RESOLUTION = 3600.0  # seconds; a use within an hour of the last one is not written again


def mark_used(path: Path) -> None:
    """Record the use of a file, where it exists and this user may."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > RESOLUTION:
            os.utime(path)
