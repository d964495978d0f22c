"""Output folders: checked before any work is done."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from precast.build.errors import OutputError


def check_output_folder(path: Path) -> None:
    """Raise OutputError unless files can be written into a folder, which need not exist yet.

    >>> check_output_folder(Path("dist"))
    """
    try:
        if not is_writable(nearest_folder(path), ".precast-check-"):
            raise OutputError(f"{path} is not writable for this user: choose another folder")
    except OSError as error:
        raise OutputError(f"{path} cannot be used: {error.strerror or error}; choose another folder") from error


def nearest_folder(path: Path) -> Path:
    """The path, or its nearest parent that exists; raises OutputError if that is not a folder.

    >>> nearest_folder(Path("/dev/no/such/folder"))
    PosixPath('/dev')
    """
    nearest = next(p for p in (path, *path.absolute().parents) if p.exists() or p.is_symlink())
    if not nearest.is_dir():
        raise OutputError(f"{path} cannot be created, because {nearest} is not a folder: choose another path")
    return nearest


def is_writable(folder: Path, prefix: str) -> bool:
    """Whether a folder can be created in ``folder``: permissions alone are not sufficient."""
    try:
        probe = tempfile.mkdtemp(dir=folder, prefix=prefix)
    except OSError:
        return False
    with contextlib.suppress(OSError):  # another build may have removed it already
        os.rmdir(probe)
    return True
