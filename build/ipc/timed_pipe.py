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
    """Reads from a pipe until a deadline, and calls ``check`` regularly while it waits.

    ``delay`` returns the seconds for which the other end has waited for a processor in all: these do not count.
    """

    def __init__(
        self, pipe: BinaryIO, seconds: float, check: Callable[[], None], delay: Callable[[], float] = float
    ) -> None:
        self._pipe, self._deadline, self._check = pipe, time.monotonic() + seconds, check
        self._delay, self._counted = delay, delay()

    def read(self, size: int) -> bytes:
        """At most so many bytes, none at the end; raises TimeoutError."""
        while True:
            left = self._deadline - time.monotonic()
            if ready(self._pipe.fileno(), seconds=max(0.0, min(left, _CHECK_SECONDS))):
                return os.read(self._pipe.fileno(), min(size, _MOST))
            if left <= 0 and not self._extend():
                raise TimeoutError
            self._check()

    def _extend(self) -> bool:
        """Move the deadline by the time for which the other end has waited since; False if it has hardly waited."""
        delay = self._delay()
        more, self._counted = delay - self._counted, delay
        self._deadline += more
        return more > _CHECK_SECONDS
