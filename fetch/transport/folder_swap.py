"""The folder of a cache, replaced as a whole: by a fetch, and by a build.

A folder that can be renamed is exchanged with a new one in one step of the file system. A mount point cannot: the files
of the new cache are moved into it, blobs first, ``index.json`` last, and then what the new index does not name is
removed. During these moves, which take milliseconds, a reader may find a file missing, and never finds wrong bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.loader.contract.format.index import INDEX_LIMIT, Index
from precast.loader.errors import FormatError
from precast.loader.regular_file import read_regular

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST}
FIXED = {errno.EBUSY, errno.EXDEV}
"""The error numbers of renaming a mount point."""
_RENAMES = 100
_IGNORED = {"lost+found"}  # at the root of some file systems; not part of a cache
INSIDE = ".precast-"
"""The prefix of a folder in which a cache that cannot be renamed is prepared."""


def content_problem(path: Path) -> str | None:
    """Why a path must not be replaced by a cache, or None: only a cache, an empty folder or nothing is replaced, so
    that a mistyped ``-o`` deletes no folder of sources."""
    if not path.exists() and not path.is_symlink():
        return None
    if path.is_symlink() or not path.is_dir():
        return f"{path} is not a folder: choose another path for the cache"
    if not any(p.name not in _IGNORED and not p.name.startswith(INSIDE) for p in path.iterdir()):
        return None
    try:
        data = read_regular(path / "index.json", INDEX_LIMIT)
        Index.decode(data)
    except FileNotFoundError:
        return f"{path} is not a cache and not empty: choose an empty or a new folder"
    except OSError as error:
        return f"{path}/index.json cannot be read ({error.strerror}): choose an empty or a new folder"
    except FormatError as error:
        if b'"precast-cache"' not in data:
            return f"{path}/index.json is not a cache's ({error}): choose an empty or a new folder"
    return None


def renamable(path: Path) -> bool:
    """Whether a folder can be exchanged with another: it is not a mount point, and its parent is writable."""
    return not os.path.ismount(path) and os.access(path.absolute().parent, os.W_OK | os.X_OK)


def sync(folder: Path, at_once: int = 1) -> None:
    """Wait until everything in a folder is on the disk.

    A file system combines the writes of several threads: 740 files take 0.1 s with eight, one by one 2 to 3 s.
    """
    paths = [*folder.rglob("*"), folder]
    if at_once == 1:
        for path in paths:
            _sync_one(path)
        return
    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(_sync_one, paths):
            pass


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(new: Path, path: Path) -> None:
    """Exchange two folders in one step; where the file system cannot do that, there is a moment with neither.

    Another process may put its cache there meanwhile; then that one is exchanged.
    """
    for _ in range(_RENAMES):
        try:
            os.rename(new, path)  # nothing is there, or an empty folder
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
    raise OSError(errno.EBUSY, "others keep replacing it")


def move_within(new: Path, path: Path, names: Iterable[str]) -> None:
    """Move the files of a new cache, which is below ``path``, to their paths in it."""
    for name in sorted(names, key=_move_order):
        (path / name).parent.mkdir(exist_ok=True)
        os.replace(new / name, path / name)
    sync(path)


def remove_others(path: Path, names: Iterable[str]) -> None:
    """Remove the files of the old cache that the new one does not have."""
    named = set(names)
    for old in _files_in(path):
        if old.relative_to(path).as_posix() not in named:
            with contextlib.suppress(OSError):
                old.unlink()


def _move_order(name: str) -> tuple[int, str]:
    """Blobs first, because the ops name them; the index last, because it names all others.

    >>> sorted(["index.json", "ops/a.json", "blobs/0"], key=_move_order)
    ['blobs/0', 'ops/a.json', 'index.json']
    """
    return (["blobs", "ops", BUNDLE_FILE, "index.json"].index(name.partition("/")[0]), name)


def _files_in(path: Path) -> Iterator[Path]:
    """The files of the cache at a path, without those that other processes are preparing in it."""
    for entry in path.iterdir():
        if entry.name not in _IGNORED and not entry.name.startswith(INSIDE):
            yield from (p for p in [entry, *entry.rglob("*")] if p.is_symlink() or not p.is_dir())
