"""The search for a project file: in the working folder, then in the folders above it.

A build imports the kernels that manifests name, so a file above the working folder is used only if nobody else could
have put it there: its owner is this user, root, or the owner of the working folder (as in a container with a mounted
folder). Otherwise a ``precast.toml`` in /tmp would decide what runs in every folder below.
"""

from __future__ import annotations

import os
from pathlib import Path

from precast.build.errors import Location, ManifestError
from precast.build.project.project import NAME, Project, read_project


def find_project(folder: Path) -> Project | None:
    """The project that a folder belongs to, with paths relative to the working folder; None where there is none.

    >>> find_project(Path("/proc"))
    """
    start = folder.absolute()
    for above in (start, *start.parents):
        file = above / NAME
        if not os.path.lexists(file):
            continue
        if above != start:
            _check_owner(file, start)
        return read_project(Path(os.path.relpath(file)))
    return None


def _check_owner(file: Path, start: Path) -> None:
    try:
        owner, trusted = file.lstat().st_uid, {os.geteuid(), 0, start.stat().st_uid}
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}: remove it", Location(str(file), 1, 1)) from None
    if owner not in trusted:
        reason = "it belongs to another user, who could run code here: run precast in its folder, or name the manifests"
        raise ManifestError(reason, Location(str(file), 1, 1))
