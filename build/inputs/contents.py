"""Contents: the digests of files, and of folders with all that is in them, each computed once in a build."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from typing import NamedTuple

from precast.build.disk.memo import Memo, memo_key
from precast.build.errors import ChangedInputError
from precast.loader.contract.format.config import canonical

SMALL = 1 << 20
"""Files below this size are always read: a stamp can be set back, and reading costs nothing."""


class Content(NamedTuple):
    """A file's digest and its stamp at that moment; both None if there is no such file."""

    digest: str | None
    stamp: Stamp | None


class Contents:
    """Digests of files. The memo avoids reading large files and those of installed distributions again.

    >>> Contents().read("/proc/nowhere")
    Content(digest=None, stamp=None)
    """

    def __init__(self, memo: Memo | None = None) -> None:
        self._memo = memo
        self._read: dict[str, Content] = {}

    def read(self, path: str, *, installed: bool = False) -> Content:
        """The content of a regular file; a folder or a device has none."""
        content = self._read.get(path)
        if content is None:
            content = self._read[path] = self._take(path, installed)
        return content

    def file(self, path: str, *, installed: bool = False) -> str | None:
        """A digest of the content of a file, and of what else a link or a program differs by from another file."""
        if not os.path.lexists(path):
            return None
        link, program = os.path.islink(path), _is_program(path)
        content = self.read(path, installed=installed).digest
        if not link and not program:
            return content
        return hashlib.sha256(canonical([content, program, os.readlink(path) if link else ""])).hexdigest()

    def folder(self, path: str) -> str | None:
        """The digest of all that is in a folder, without ``__pycache__``: names, links, what may be run, contents."""
        if not os.path.isdir(path):
            return None
        rows = []
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            rows += [f"{os.path.relpath(os.path.join(folder, name), path)}/" for name in folders]
            for file in sorted(os.path.join(folder, name) for name in (*files, *folders)):
                name = os.path.relpath(file, path)
                if os.path.islink(file):
                    rows.append(f"{name} -> {os.readlink(file)}")
                elif (digest := self.read(file).digest) is not None:  # a socket is not there for a compilation
                    rows.append(f"{name} {_is_program(file)} {digest}")
        return hashlib.sha256("\0".join(rows).encode(errors="surrogateescape")).hexdigest()

    def _take(self, path: str, installed: bool) -> Content:
        stamp = stamp_of(path)
        if stamp is None:
            return Content(None, None)
        if self._memo is None or (stamp[1] < SMALL and not installed):
            return Content(hash_file(path), stamp)
        key = memo_key("content", path, list(stamp))
        noted = self._memo.get("contents", key)
        if isinstance(noted, str) and len(noted) == 64:
            return Content(noted, stamp)
        digest = hash_file(path)
        if digest is not None and not is_young(stamp):
            self._memo.put("contents", key, digest)
        return Content(digest, stamp)


def _is_program(path: str) -> bool:
    """By its mode alone: what may be run also depends on how its disk is mounted."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return bool(mode & 0o111) and not stat.S_ISDIR(mode)


def hash_file(path: str) -> str | None:
    """The digest of a regular file's content; None for anything else. A file that changes meanwhile is an error."""
    digest = hashlib.sha256()
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        before = os.fstat(file)
        if not stat.S_ISREG(before.st_mode):
            return None
        while block := os.read(file, 1 << 20):
            digest.update(block)
        after = os.fstat(file)
    except OSError:
        return None
    finally:
        os.close(file)
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise changed(path)
    return digest.hexdigest()


def changed(path: str) -> ChangedInputError:
    """The error for a file that changed during a build."""
    return ChangedInputError(f"{path} changed during the build: build again")


Stamp = tuple[int, int, int, int]
"""A file's time of change, size, number on disk, and the time of the last change of these facts."""
_YOUNG = 3 * 10**9  # nanoseconds: a file that changed so lately may change again within the same stamp


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file as it is now; None where there is none."""
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return None
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_ctime_ns)


def is_young(stamp: Stamp, then: int | None = None) -> bool:
    """Whether a file had changed so lately, now or at a time in nanoseconds, that its stamp proves nothing."""
    return (time.time_ns() if then is None else then) - max(stamp[0], stamp[3]) < _YOUNG
