"""The folder of a cache: replaced as a whole, so that no reader ever sees one half old and half new."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from precast.build.disk.scratch import scratch_folder, sweep
from precast.build.errors import StoreError
from precast.loader.errors import FormatError
from precast.loader.format.index import Index

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST}
_TRIES = 100


def write_cache(path: Path, files: Mapping[str, bytes]) -> None:
    """Put these files, and no others, in the place of the cache at ``path``. On any error the old cache stands."""
    _check_place(path)
    prefix = f".{path.name}.precast-"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, prefix)
        with scratch_folder(path.parent, prefix) as scratch:
            for name, data in files.items():
                target = scratch / name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(data)
            _sync(scratch)
            _exchange(scratch, path)
    except OSError as error:
        raise StoreError(
            f"cannot write the cache {path}: {error.strerror or error}; "
            "what was there is untouched: make room or choose another place"
        ) from error


def _check_place(path: Path) -> None:
    """Refuse to replace anything that is not a cache: a mistyped ``-o`` must not cost a folder of sources."""
    if not path.exists() and not path.is_symlink():
        return
    if path.is_symlink() or not path.is_dir():
        raise StoreError(f"{path} is not a folder: choose another place for the cache")
    if not any(path.iterdir()):
        return
    try:
        Index.decode((path / "index.json").read_bytes())
    except FileNotFoundError:
        raise StoreError(f"{path} holds other things than a cache: choose an empty or a new folder") from None
    except FormatError as error:
        if '"precast-cache"' not in (path / "index.json").read_text(errors="replace"):
            raise StoreError(f"{path}/index.json is not a cache's ({error}): choose an empty or a new folder") from None


def _sync(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(new: Path, path: Path) -> None:
    """Swap the two in one step of the file system; where it has none, there is a moment with neither.

    Another build may put its cache there at any moment: then that one is swapped out.
    """
    for _ in range(_TRIES):
        try:
            os.rename(new, path)  # nothing there, or an empty folder
            return
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(path), _RENAME_EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
        if code in _NO_EXCHANGE:
            aside = new.with_name(f"{new.name}-old")
            os.rename(path, aside)
            os.rename(new, path)
            shutil.rmtree(aside, ignore_errors=True)
            return
        if code != errno.ENOENT:
            raise OSError(code, os.strerror(code))
    raise OSError(errno.EBUSY, "other builds keep replacing it")
