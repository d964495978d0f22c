"""The folder of a cache: replaced as a whole, so that no reader ever sees one half old and half new."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from precast.build.errors import StoreError
from precast.loader.errors import FormatError
from precast.loader.index import Index

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}


def write_cache(path: Path, files: Mapping[str, bytes]) -> None:
    """Put these files, and no others, in the place of the cache at ``path``. On any error the old cache stands."""
    _check_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(path) as scratch:
        try:
            for name, data in files.items():
                target = scratch / name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(data)
            _sync(scratch)
            _exchange(scratch, path)
        except OSError as error:
            raise StoreError(
                f"cannot write the cache {path}: {error.strerror or error}; what was there is untouched: "
                "make room or choose another place"
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


@contextlib.contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    try:
        scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    except OSError as error:
        raise StoreError(f"cannot write beside {path}: {error.strerror or error}; choose another place") from error
    try:
        scratch.chmod(0o755)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _sync(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(new: Path, path: Path) -> None:
    """Swap the two in one step of the file system; where it has none, there is a moment with neither."""
    if not path.exists():
        os.rename(new, path)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(path), _RENAME_EXCHANGE) == 0:
        return
    code = ctypes.get_errno()
    if code not in _NO_EXCHANGE:
        raise OSError(code, os.strerror(code))
    aside = new.with_name(f"{new.name}-old")
    os.rename(path, aside)
    os.rename(new, path)
    shutil.rmtree(aside, ignore_errors=True)
