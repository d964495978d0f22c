"""Contents: the digests of files and of folders' listings, each computed once in a build."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from precast.build.disk.memo import Memo, memo_key
from precast.build.errors import ChangedInputError
from precast.build.inputs.stamp import Stamp, is_young, stamp_of

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

    def forget(self, paths: Iterable[str]) -> None:
        """Read these files again when their content is requested next."""
        for path in paths:
            self._read.pop(path, None)

    def folder(self, path: str) -> str | None:
        """The digest of the names in a folder, and of which of them are folders; without ``__pycache__``."""
        try:
            with os.scandir(path) as entries:
                names = sorted(entry.name + "/" * entry.is_dir() for entry in entries if entry.name != "__pycache__")
        except OSError:
            return None
        return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()

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


def kind_of(path: str) -> str | None:
    """Whether a path is a file, a program, a folder, or something else; None if there is nothing.

    >>> kind_of("/"), kind_of("/bin/sh"), kind_of("/proc/nowhere")
    ('folder', 'program', None)
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(mode):
        return "program" if mode & 0o111 else "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


def changed(path: str) -> ChangedInputError:
    """The error for a file that changed during a build."""
    return ChangedInputError(f"{path} changed during the build: build again")
