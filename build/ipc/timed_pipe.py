"""Reading from a pipe until a deadline."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import BinaryIO

_CHECK_SECONDS = 0.1
_MOST = 1 << 20


def ready(*descriptors: int, seconds: float | None = None) -> list[int]:
    """Those of some descriptors that can be read, or are at their end, after a wait. ``select`` takes none above 1023.

    >>> ready(seconds=0.0)
    []
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)]


class TimedPipe:
    """Reads from a pipe until a deadline, and calls ``check`` regularly while it waits."""

    def __init__(self, pipe: BinaryIO, seconds: float, check: Callable[[], None]) -> None:
        self._pipe, self._deadline, self._check = pipe, time.monotonic() + seconds, check

    def read(self, size: int) -> bytes:
        """At most so many bytes, none at the end; raises TimeoutError."""
        while True:
            left = self._deadline - time.monotonic()
            if ready(self._pipe.fileno(), seconds=max(0.0, min(left, _CHECK_SECONDS))):
                return os.read(self._pipe.fileno(), min(size, _MOST))
            if left <= 0:
                raise TimeoutError
            self._check()
