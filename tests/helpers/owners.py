"""What a test needs that gives files to other users."""

from __future__ import annotations

import os
import tempfile


def gives_away() -> bool:
    """Whether this process may give files to other users: root may, but not in a namespace that knows no others."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.chown(file.name, 4711, -1)
        except OSError:
            return False
    return True
