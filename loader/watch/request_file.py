"""The file of requests: each distinct request is written at once as a line, and its count follows later.

A line is one write at the end of the file, so that many processes may share one, and a killed process loses no
request. Counts are written at the exit of the process, and at a request when the last ones are a minute old.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Hashable

from precast.loader.contract.diagnostics.requests import FILE_LIMIT, LINE_LIMIT, RequestRecord
from precast.loader.contract.values import replace
from precast.loader.locks import ForkSafeLock
from precast.loader.watch.notice import notice

MOST = 10_000
"""Distinct requests of one process."""
_SECONDS = 60.0
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK


class RequestFile:
    """Writes requests of this process to a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[bytes, RequestRecord] = {}
        self._unwritten: dict[bytes, int] = {}  # counts since the last write
        self._by_memo_key: dict[Hashable, bytes] = {}
        self._process, self._flushed = os.getpid(), time.monotonic()
        self._lock, self._broken = ForkSafeLock(), False
        atexit.register(self.flush)

    def add(self, record: RequestRecord, memo_key: Hashable | None) -> None:
        """Add a request that was resolved; ``count`` then finds it by its ``memo_key``."""
        identity = record.identity
        with self._lock:
            if identity not in self._known and len(self._known) >= MOST:
                notice(f"PRECAST_REQUESTS: more than {MOST} distinct requests: further ones are not written")
                return
            if memo_key is not None and len(self._by_memo_key) < 10 * MOST:
                self._by_memo_key[memo_key] = identity
            if identity in self._known:
                self._increment(identity)
            else:
                self._known[identity] = record
                self._write(record)

    def count(self, memo_key: Hashable) -> None:
        """Count a request that ``get`` answered from memory."""
        with self._lock:
            identity = self._by_memo_key.get(memo_key)
            if identity is not None:
                self._increment(identity)

    def flush(self) -> None:
        """Write what was counted."""
        with self._lock:
            self._forget_counts_of_parent()
            counts, self._unwritten, self._flushed = self._unwritten, {}, time.monotonic()
            for identity, count in counts.items():
                self._write(replace(self._known[identity], count=count))

    def _increment(self, identity: bytes) -> None:
        self._forget_counts_of_parent()
        self._unwritten[identity] = self._unwritten.get(identity, 0) + 1
        if time.monotonic() - self._flushed > _SECONDS:
            self.flush()

    def _forget_counts_of_parent(self) -> None:
        """A forked child counts for itself: its parent writes what it had counted before the fork."""
        if self._process != os.getpid():
            self._process, self._unwritten = os.getpid(), {}

    def _write(self, record: RequestRecord) -> None:
        if self._broken:
            return
        try:
            line = record.line
            if len(line) > LINE_LIMIT:
                notice(f"PRECAST_REQUESTS: a request of op {record.op!r} is too long for the file")
                return
            append_line(self._path, line)
        except OSError as error:
            self._broken = True
            notice(f"PRECAST_REQUESTS: {self._path} cannot be written ({error.strerror or error}): requests are lost")


def append_line(path: str, line: bytes) -> None:
    """Add a line to a file in one write. A line that another process left unfinished is ended first."""
    file = os.open(path, _APPEND, 0o666)
    try:
        end = os.fstat(file).st_size
        if end + len(line) > FILE_LIMIT:
            raise OSError(f"it holds {end} bytes, and may hold {FILE_LIMIT}")
        if end and os.pread(file, 1, end - 1) != b"\n":  # an empty line means nothing, so a wrong guess does no harm
            line = b"\n" + line
        if os.write(file, line) != len(line):
            raise OSError("there is no space left for a whole line")
    finally:
        os.close(file)
