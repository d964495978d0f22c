"""Scratch: files and folders in the making, which end with the build that made them, even with one that was killed.

Whoever writes one holds a lock on it, which the system takes back when the process ends. A later build removes what
nobody holds; what a living build is at, it leaves alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from precast.build.errors import StoreError

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}
_TRIES = 100
WRITING = ".writing-"


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder, which is gone when the block ends, unless it has been moved by then."""
    path, held = _held(lambda: Path(tempfile.mkdtemp(dir=parent, prefix=prefix)))
    try:
        path.chmod(0o755)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)


@contextlib.contextmanager
def scratch_file(parent: Path, prefix: str) -> Iterator[Path]:
    """A new empty file, which is gone when the block ends, unless it has been moved by then."""

    def make() -> Path:
        handle, name = tempfile.mkstemp(dir=parent, prefix=prefix)
        os.close(handle)
        return Path(name)

    path, held = _held(make)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(held)


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file so that no one ever sees half of it, whatever ends this process; a full disk leaves nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch_file(path.parent, WRITING) as temporary:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; make room or choose another place"
        ) from error


def sweep(parent: Path, prefix: str) -> int:
    """Remove what a killed build has left under such a name, and say how many there were."""
    removed = 0
    with contextlib.suppress(OSError):
        for path in list(parent.iterdir()):
            if path.name.startswith(prefix) and _take_away(path):
                removed += 1
    return removed


def _held(make: Callable[[], Path]) -> tuple[Path, int]:
    """Make one and lock it; between the two a sweeping build may have taken it away: then make another."""
    for _ in range(_TRIES):
        path = make()
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        if _same(path, handle):
            return path, handle
        os.close(handle)
    raise OSError(errno.EAGAIN, "every new file there is taken away at once")


def _take_away(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
        return True
    except OSError:  # somebody is at it, or the file system has no locks
        return False
    finally:
        os.close(handle)


def _same(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False
