"""Scratch: temporary files and folders, which are removed even if the build that made them was killed.

The process that writes one locks it, and the system releases the lock when the process ends. A later build removes
those without a lock, and not those of a running build.
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
_TEMPORARY = "precast-scratch-"


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder, which is removed when the block ends, unless it was moved before."""
    path, handle = _locked(lambda: Path(tempfile.mkdtemp(dir=parent, prefix=prefix)))
    maker = os.getpid()
    try:
        path.chmod(0o755)
        yield path
    finally:
        if os.getpid() == maker:  # and not a copy of it, which a kernel's function made and which leaves the block too
            shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


class TemporaryLost(OSError):
    """A temporary folder was removed while it was used: something else empties the folder that it is in."""


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder for files of tools, where the system keeps temporary files. An error in the block becomes
    TemporaryLost if the folder is gone."""
    with scratch_folder(Path(tempfile.gettempdir()), _TEMPORARY) as folder:
        try:
            yield folder
        except Exception as error:
            missing = error.filename if isinstance(error, FileNotFoundError) else ""
            if folder.exists() and not str(missing).startswith(str(folder)):
                raise
            raise TemporaryLost(
                f"{folder} was removed while it was used, perhaps by a kernel's module: set TMPDIR to another folder"
            ) from error


def sweep_temporary() -> int:
    """Remove the temporary folders of builds that were killed, and return how many there were."""
    return sweep(Path(tempfile.gettempdir()), _TEMPORARY)


@contextlib.contextmanager
def scratch_file(parent: Path, prefix: str) -> Iterator[Path]:
    """A new empty file, which is removed when the block ends, unless it was moved before."""

    def make() -> Path:
        handle, name = tempfile.mkstemp(dir=parent, prefix=prefix)
        os.close(handle)
        return Path(name)

    path, handle = _locked(make)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(handle)


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file so that readers see the old one or the new one, however this process ends, also on a full disk."""
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
            f"cannot write {path}: {error.strerror or error}; free disk space or choose another path"
        ) from error


def write_output(path: Path, data: bytes) -> None:
    """Write a file that a command makes, as ``write_atomically`` does, and remove what killed commands left beside it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, ".writing-killed").touch()
    ...     write_output(Path(folder, "report.html"), b"")
    ...     os.listdir(folder)
    ['report.html']
    """
    sweep(path.parent, WRITING)
    write_atomically(path, data)


def sweep(parent: Path, prefix: str) -> int:
    """Remove files of killed builds whose names have this prefix, and return how many there were."""
    removed = 0
    with contextlib.suppress(OSError):
        for path in list(parent.iterdir()):
            if path.name.startswith(prefix) and _remove_unlocked(path):
                removed += 1
    return removed


def _locked(make: Callable[[], Path]) -> tuple[Path, int]:
    """Make one and lock it. Another build may remove it before it is locked; then make another."""
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
    raise OSError(errno.EAGAIN, "every new file there is removed at once")


def _remove_unlocked(path: Path) -> bool:
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
    except OSError:  # another process holds it, or the file system has no locks
        return False
    finally:
        os.close(handle)


def _same(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False
