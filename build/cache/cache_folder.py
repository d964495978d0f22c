"""The folder of a cache: checked before anything is compiled, and replaced as a whole.

A folder that can be renamed is exchanged with a new one in one atomic step: a reader sees the old cache or the new one,
and a process that ends at any moment leaves one of them.

A folder that cannot be renamed is replaced from within: a mount point, such as a container's volume, or a folder whose
parent this user cannot write. All new files are written and synced inside it first, then moved to their places: blobs,
ops, ``index.json`` last; then what the new index does not name is removed. An error before the moves leaves the old
cache. During the moves, which take milliseconds, a reader of either index may get an IntegrityError (a file is missing
or is not the one that its index names), and should open the cache again; it never gets wrong bytes, because every file
is checked against the reader's index. A process that is killed between two moves leaves a cache that readers refuse in
the same way, until the next build replaces it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from precast.build.disk.output_folder import is_writable, nearest_folder
from precast.build.disk.scratch import scratch_folder, sweep
from precast.build.errors import OutputError, StoreError
from precast.fetch.transport.folder_swap import (
    FIXED,
    INSIDE,
    content_problem,
    exchange,
    move_within,
    remove_others,
    renamable,
    sync,
)


def check_output(path: Path) -> None:
    """Raise OutputError unless a cache can be written at a path: an empty, a new, or a cache's folder, and writable."""
    try:
        problem = content_problem(path)
        if problem:
            raise OutputError(problem)
        folder = nearest_folder(path)
        within = folder == path and not renamable(path)
        if folder == path and not within:
            folder = path.absolute().parent
        prefix = INSIDE if within else _prefix(path)
        if not is_writable(folder, f"{prefix}check-") or (path.is_dir() and not os.access(path, os.W_OK | os.X_OK)):
            raise OutputError(f"{path} is not writable for this user: choose another folder for the cache")
    except OSError as error:
        raise OutputError(
            f"{path} cannot be used for a cache: {error.strerror or error}; choose another folder"
        ) from error


def write_cache(path: Path, files: Mapping[str, bytes]) -> None:
    """Replace the cache at ``path`` by these files and no others. An error leaves the old cache as it was.

    Only where the folder cannot be renamed, an error between the first move and the last leaves neither: see above.
    """
    check_output(path)
    try:
        if path.is_dir() and not renamable(path):
            _replace_within(path, files)
            return
        try:
            _replace_whole(path, files)
        except OSError as error:
            if error.errno not in FIXED or not path.is_dir():
                raise
            _replace_within(path, files)  # a bind mount within one file system looks like any other folder
    except OSError as error:
        raise StoreError(
            f"cannot write the cache {path}: {error.strerror or error}; "
            "the old cache is unchanged: free disk space or choose another folder"
        ) from error


def _prefix(path: Path) -> str:
    """The prefix of the names of temporary folders for the cache at a path."""
    return f".{path.name}.precast-"


def _replace_whole(path: Path, files: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, _prefix(path))
    with scratch_folder(path.parent, _prefix(path)) as scratch:
        _write_files(scratch, files)
        exchange(scratch, path)


def _replace_within(path: Path, files: Mapping[str, bytes]) -> None:
    sweep(path, INSIDE)
    with scratch_folder(path, INSIDE) as scratch:
        _write_files(scratch, files)
        try:
            move_within(scratch, path, files)
        except OSError as error:
            raise StoreError(
                f"the cache {path} was replaced only in part: {error.strerror or error}; build it again"
            ) from error
    remove_others(path, files)


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    for path in (folder, *folder.rglob("*")):  # the loader refuses what everyone may write, as with a umask of 000
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & stat.S_IWOTH:
            path.chmod(mode & ~stat.S_IWOTH)
    sync(folder)
