"""The file of requests: each distinct request is a line at once, and how often it came follows later.

A line is one write at the end of the file, so that many processes may share one, and what a killed process has asked
for is not lost. Counts are written at the exit of the process, and at a request when the last ones are a minute old.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Hashable

from precast.loader.contract.diagnostics.requests import FILE_LIMIT, LINE_LIMIT, Requested
from precast.loader.contract.values import replace
from precast.loader.fork_safe import ForkSafeLock
from precast.loader.watch.notice import notice

MOST = 10_000
"""Distinct requests of one process."""
_SECONDS = 60.0
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK


class RequestFile:
    """Writes requests of this process to a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[bytes, Requested] = {}
        self._more: dict[bytes, int] = {}  # what was counted since it was written
        self._asked: dict[Hashable, bytes] = {}  # by the arguments of ``get``
        self._process, self._flushed = os.getpid(), time.monotonic()
        self._lock, self._broken = ForkSafeLock(), False
        atexit.register(self.flush)

    def note(self, requested: Requested, asked: Hashable) -> None:
        """Note a request that was resolved, under the arguments that it came with."""
        identity = requested.identity
        with self._lock:
            if identity not in self._known and len(self._known) >= MOST:
                notice(f"PRECAST_REQUESTS: more than {MOST} distinct requests: further ones are not written")
                return
            if len(self._asked) < 10 * MOST:
                self._asked[asked] = identity
            if identity in self._known:
                self._add(identity)
            else:
                self._known[identity] = requested
                self._write(requested)

    def again(self, asked: Hashable) -> None:
        """Count a request that ``get`` answered from memory."""
        with self._lock:
            identity = self._asked.get(asked)
            if identity is not None:
                self._add(identity)

    def flush(self) -> None:
        """Write what was counted."""
        with self._lock:
            self._own()
            more, self._more, self._flushed = self._more, {}, time.monotonic()
            for identity, count in more.items():
                self._write(replace(self._known[identity], count=count))

    def _add(self, identity: bytes) -> None:
        self._own()
        self._more[identity] = self._more.get(identity, 0) + 1
        if time.monotonic() - self._flushed > _SECONDS:
            self.flush()

    def _own(self) -> None:
        """A forked child counts for itself: what its parent had counted by then, the parent writes."""
        if self._process != os.getpid():
            self._process, self._more = os.getpid(), {}

    def _write(self, requested: Requested) -> None:
        if self._broken:
            return
        try:
            line = requested.line
            if len(line) > LINE_LIMIT:
                notice(f"PRECAST_REQUESTS: a request of op {requested.op!r} is too long to be written")
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
