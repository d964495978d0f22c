"""Staging: the folder where a fetch collects a cache before it is installed. An interrupted fetch keeps it, so
that the next one resumes; nothing in it is trusted, all of it is checked again.

One process at a time locks it. It is beside the cache, or inside it where the cache is a mount point, under a name
that a build of that cache treats as its own leftover once no process locks it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from precast.fetch.distribution.layers import Transfer
from precast.fetch.lock import locked
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
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.index import digest
from precast.loader.errors import CacheError, ConfigError, FetchError, PrecastError
from precast.loader.resolve.cache import OVERRIDE, Cache

_NAME = f"{INSIDE}fetch"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CHECKERS = 4
_SYNCING = 8


class Staging:
    """The staging folder of a cache: ``cache`` is what will be put into place, ``parts`` holds unfinished transfers."""

    def __init__(self, target: Path, path: Path) -> None:
        self.target, self.path = target, path
        self.cache = path / "cache"
        self._parts = path / "parts"

    def prepare(self) -> None:
        """Make the folders. Their modes are explicit: other users may read a cache whatever this user's mask is."""
        for folder in (self.cache, self.cache / "ops", self.cache / "blobs", self._parts):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)

    def has(self, name: str, size: int, sha256: str = "") -> bool:
        """Whether a file exists and has this size, and this digest if one is given."""
        path = self.cache / name
        try:
            facts = path.lstat()
        except OSError:
            return False
        right = stat.S_ISREG(facts.st_mode) and facts.st_size == size
        return right and (not sha256 or digest(path.read_bytes()) == sha256)

    def put(self, name: str, data: bytes) -> None:
        """Write a file of the staged cache."""
        path = self.cache / name
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)

    def drop(self, name: str) -> None:
        """Remove a file that is missing bytes or damaged."""
        with contextlib.suppress(FileNotFoundError):
            (self.cache / name).unlink()

    def keep_only(self, names: Iterable[str]) -> None:
        """Remove the files that an earlier fetch of another cache left."""
        remove_others(self.cache, names)

    @contextlib.contextmanager
    def part(self, transfer: Transfer) -> Iterator[BinaryIO]:
        """The file with the received bytes of a transfer, opened for appending."""
        with open(self._part(transfer), "a+b") as file:
            yield file

    def finish_part(self, transfer: Transfer) -> None:
        """Write the files of a transfer that is complete."""
        path = self._part(transfer)
        if transfer.whole:
            path.chmod(0o644)
            os.replace(path, self.cache / transfer.members[0].name)
            return
        with open(path, "rb") as file:
            for member in transfer.members:
                file.seek(member.offset)
                self.put(member.name, file.read(member.size))
        path.unlink()

    def _part(self, transfer: Transfer) -> Path:
        what = f"{transfer.source} {transfer.offset} {transfer.size}".encode()
        return self._parts / digest(what)[:32]

    def take(self, sizes: Mapping[str, int], folders: Iterable[Path]) -> None:
        """Copy files of these names and sizes from other caches.

        They may be compressed in another way, or damaged: copies are checked like fetched files.
        """
        for folder in folders:
            for name, size in sizes.items():
                if not self.has(name, size):
                    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                        data = _plain(folder / name, size)
                        if len(data) == size:
                            self.put(name, data)

    def damaged(self, cache: Cache, blobs: Mapping[str, Blob]) -> dict[str, str]:
        """The blobs that are not what the index promises, with the reason, of those that are present.

        The loader's own reader checks them, so the loader accepts whatever passes. Damaged blobs are removed.
        """
        with ThreadPoolExecutor(_CHECKERS) as pool:
            reasons = dict(zip(blobs, pool.map(lambda blob: _damage(cache, blob), blobs.values()), strict=True))
        damaged = {name: reason for name, reason in reasons.items() if reason}
        for name in damaged:
            self.drop(name)
        return damaged

    def room(self, size: int) -> None:
        """Raise FetchError unless ``size`` bytes fit on the disk."""
        facts = os.statvfs(self.path)
        free = facts.f_bavail * facts.f_frsize
        if size > free:
            raise FetchError(f"{self.path.parent} has {free} bytes free, but the fetch needs {size}: make room")

    def install(self, names: Iterable[str]) -> None:
        """Put the prepared cache into place, in one step where the target can be renamed."""
        listed = list(names)
        sync(self.cache, _SYNCING)
        if self.path.parent == self.target:
            self._install_within(listed)
            return
        try:
            exchange(self.cache, self.target)
        except OSError as error:
            if error.errno not in FIXED or not self.target.is_dir():
                raise
            inside = Staging(self.target, self.target / _NAME)  # a bind mount looks like any other folder
            shutil.copytree(self.cache, inside.cache, dirs_exist_ok=True)
            inside._install_within(listed)
            shutil.rmtree(inside.path, ignore_errors=True)

    def _install_within(self, names: list[str]) -> None:
        try:
            move_within(self.cache, self.target, names)
        except OSError as error:
            raise FetchError(
                f"the cache {self.target} was only partly replaced ({error.strerror}): fetch it again"
            ) from error
        remove_others(self.target, names)


@contextlib.contextmanager
def hold(target: Path, wait: Callable[[str], None]) -> Iterator[Staging]:
    """The staging folder of a cache, locked by this process. It is removed once the cache has been installed.

    ``wait`` is called with a message before this waits for another fetch that has the lock.
    """
    handle = -1
    try:
        problem = content_problem(target)
        if problem:
            raise ConfigError(problem)
        within = target.is_dir() and (not renamable(target) or _is_current(target))
        if within and target.stat().st_mode & stat.S_IWOTH and os.environ.get(OVERRIDE) != "1":
            raise ConfigError(
                f"{target} is world-writable and cannot be replaced, so the loader would refuse a cache there:"
                f" fetch into a folder below it, such as {target / 'kernels'}"
            )
        path = target / _NAME if within else target.absolute().parent / f".{target.name}{_NAME}"
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = locked(path, lambda: wait(f"another fetch into {target} is running: waiting for it"))
        staging = Staging(target, path)
        staging.prepare()
        yield staging
        shutil.rmtree(path, ignore_errors=True)
    except OSError as error:
        if error.errno in _FULL:
            raise FetchError(
                f"the disk of {target} is full ({error.strerror}): make room, and run this again to"
                " resume. The previous cache is unchanged"
            ) from error
        raise FetchError(
            f"{target} cannot be written ({error.strerror or error}): choose another folder, or check its permissions"
        ) from error
    finally:
        if handle >= 0:
            if not any(p.is_file() for p in path.rglob("*")):
                shutil.rmtree(path, ignore_errors=True)  # nothing has come
            os.close(handle)


def _is_current(target: Path) -> bool:
    """Whether a folder is the current one of this process, and so of the shell that started it: exchanging it would
    leave them in a folder that is gone."""
    try:
        return target.samefile(os.curdir)
    except OSError:
        return False


def _plain(path: Path, size: int) -> bytes:
    """The bytes of a regular file, no more than one byte beyond a size."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(size + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""


def _damage(cache: Cache, blob: Blob) -> str:
    try:
        cache.read(blob)
    except CacheError as error:
        return str(error)
    except PrecastError as error:
        return f"{type(error).__name__}: {error}"
    return ""
