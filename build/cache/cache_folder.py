"""The folder of a cache: checked before anything is compiled for it, and replaced as a whole.

A folder that can be renamed is exchanged with a new one in one step of the file system: a reader sees the old cache or
the new one, and a process that ends at any moment leaves the old one or the new one.

A folder that cannot be renamed is replaced from within: a mount point, such as a container's volume, or a folder whose
parent this user cannot write. All new files are written and synced inside it first, then moved to their places: blobs,
ops, ``index.json`` last; then what the new index does not name is removed. An error before the moves leaves the old
cache. During the moves, which take milliseconds, a reader of either index may get an IntegrityError (a file is missing
or is not the one that its index names), and should open the cache again; it never gets wrong bytes, because every file
is checked against the reader's index. A process that is killed between two moves leaves a cache that readers refuse in
the same way, until the next build replaces it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from precast.build.disk.output_folder import is_writable, nearest_folder
from precast.build.disk.scratch import scratch_folder, sweep
from precast.build.errors import OutputError, StoreError
from precast.loader.errors import FormatError
from precast.loader.format.index import Index

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST}
_FIXED = {errno.EBUSY, errno.EXDEV}  # what renaming a mount point gives
_RENAMES = 100
_IGNORED = {"lost+found"}  # at the root of some file systems; not part of a cache
_INSIDE = ".precast-"  # how a folder begins in which a cache that cannot be renamed is prepared


def check_output(path: Path) -> None:
    """Raise OutputError unless a cache can be written at a path: an empty, a new, or a cache's folder, and writable."""
    try:
        _check_content(path)
        folder = nearest_folder(path)
        within = folder == path and not _renamable(path)
        if folder == path and not within:
            folder = path.absolute().parent
        prefix = _INSIDE if within else _prefix(path)
        if not is_writable(folder, f"{prefix}check-") or (path.is_dir() and not os.access(path, os.W_OK | os.X_OK)):
            raise OutputError(f"{path} cannot be written by this user: choose another place for the cache")
    except OSError as error:
        raise OutputError(
            f"{path} cannot be used for a cache: {error.strerror or error}; choose another place"
        ) from error


def write_cache(path: Path, files: Mapping[str, bytes]) -> None:
    """Replace the cache at ``path`` by these files and no others. An error leaves the old cache as it was.

    Only where the folder cannot be renamed, an error between the first move and the last leaves neither: see above.
    """
    check_output(path)
    try:
        if path.is_dir() and not _renamable(path):
            _replace_within(path, files)
            return
        try:
            _replace_whole(path, files)
        except OSError as error:
            if error.errno not in _FIXED or not path.is_dir():
                raise
            _replace_within(path, files)  # a bind mount within one file system looks like any other folder
    except OSError as error:
        raise StoreError(
            f"cannot write the cache {path}: {error.strerror or error}; "
            "the cache that was there is unchanged: make room or choose another place"
        ) from error


def _check_content(path: Path) -> None:
    """Refuse to replace anything that is not a cache, so that a mistyped ``-o`` deletes no folder of sources."""
    if not path.exists() and not path.is_symlink():
        return
    if path.is_symlink() or not path.is_dir():
        raise OutputError(f"{path} is not a folder: choose another place for the cache")
    if not any(p.name not in _IGNORED and not p.name.startswith(_INSIDE) for p in path.iterdir()):
        return
    try:
        Index.decode((path / "index.json").read_bytes())
    except FileNotFoundError:
        raise OutputError(f"{path} holds other things than a cache: choose an empty or a new folder") from None
    except FormatError as error:
        if '"precast-cache"' not in (path / "index.json").read_text(errors="replace"):
            raise OutputError(
                f"{path}/index.json is not a cache's ({error}): choose an empty or a new folder"
            ) from None


def _renamable(path: Path) -> bool:
    return not os.path.ismount(path) and os.access(path.absolute().parent, os.W_OK | os.X_OK)


def _prefix(path: Path) -> str:
    """How the names of temporary folders begin that belong to the cache at a path."""
    return f".{path.name}.precast-"


def _replace_whole(path: Path, files: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, _prefix(path))
    with scratch_folder(path.parent, _prefix(path)) as scratch:
        _write_files(scratch, files)
        _exchange(scratch, path)


def _replace_within(path: Path, files: Mapping[str, bytes]) -> None:
    sweep(path, _INSIDE)
    with scratch_folder(path, _INSIDE) as scratch:
        _write_files(scratch, files)
        try:
            for name in sorted(files, key=_move_order):
                (path / name).parent.mkdir(exist_ok=True)
                os.replace(scratch / name, path / name)
            _sync(path)
        except OSError as error:
            raise StoreError(
                f"the cache {path} could be replaced in part only: {error.strerror or error}; build it again"
            ) from error
    for old in _files_in(path):
        if old.relative_to(path).as_posix() not in files:
            with contextlib.suppress(OSError):
                old.unlink()


def _move_order(name: str) -> tuple[int, str]:
    """Blobs first, because the ops name them; the index last, because it names all others.

    >>> sorted(["index.json", "ops/a.json", "blobs/0"], key=_move_order)
    ['blobs/0', 'ops/a.json', 'index.json']
    """
    return (["blobs", "ops", "index.json"].index(name.partition("/")[0]), name)


def _files_in(path: Path) -> Iterator[Path]:
    """The files of the cache at a path; what other builds are preparing in it is not listed."""
    for entry in path.iterdir():
        if entry.name not in _IGNORED and not entry.name.startswith(_INSIDE):
            yield from (p for p in [entry, *entry.rglob("*")] if p.is_symlink() or not p.is_dir())


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    _sync(folder)


def _sync(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(new: Path, path: Path) -> None:
    """Exchange two folders in one step; where the file system cannot, there is a moment with neither.

    Another build may put its cache there at any moment; then that one is exchanged.
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
    raise OSError(errno.EBUSY, "other builds keep replacing it")
