"""Patience: which requests are retried, how often, and after which pauses."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from precast.loader.contract.values import Immutable
from precast.loader.errors import FetchError

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


_REPORTED = 1.5  # seconds


class TransientError(Exception):
    """A lost connection, or a busy server. ``retry_after`` is the pause that the server requested, in seconds.

    One that is ``slow`` sent something, and took very long: it is tried again once, since all may be as slow.
    """

    def __init__(self, reason: str, retry_after: float | None = None, *, slow: bool = False) -> None:
        super().__init__(reason)
        self.retry_after, self.slow = retry_after, slow


class Stopped(Exception):
    """Another transfer failed for good, so this one stops."""


class Patience(Immutable, kw_only=True):
    """How long to wait: ``tries`` without any progress, ``timeout`` seconds for a server's next bytes, twice that for
    all headers. The rest must arrive at ``slowest`` bytes a second or faster, in each ``timeout``. The first pause has
    about ``first`` seconds, each further one twice as many, at most ``longest``.
    """

    tries: int = 6
    first: float = 0.5
    longest: float = 60.0
    timeout: float = 30.0
    slowest: int = 1000
    most: int = 1000

    def pause(self, attempt: int, minimum: float | None, chance: float) -> float:
        """Seconds to wait after an attempt, which count from 0; ``chance`` is between 0 and 1.

        >>> [Patience().pause(attempt, None, 1.0) for attempt in range(9)]
        [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
        >>> Patience().pause(0, 7.0, 0.5), Patience().pause(0, 1e9, 0.5)
        (7.0, 60.0)
        """
        grown = min(self.first * float(1 << min(attempt, 30)), self.longest) * (0.5 + chance / 2)
        return min(max(grown, minimum or 0.0), self.longest)

    @property
    def block(self) -> float:
        """The bytes that must arrive in each ``timeout``.

        >>> Patience().block
        30000.0
        """
        return self.slowest * self.timeout

    def block_by(self) -> float:
        """The time of the monotonic clock by which the next block must have arrived, or what is left."""
        return time.monotonic() + self.timeout

    def answer_by(self, sent: int) -> float:
        """The time of the monotonic clock by which ``sent`` bytes must be sent and all headers must have come."""
        return time.monotonic() + 2 * self.timeout + sent / max(self.slowest, 1)

    def persist(
        self,
        what: str,
        action: Callable[[], T],
        stop: threading.Event,
        progress: Callable[[], int] = lambda: 0,
        report: Callable[[str], None] = lambda text: None,
    ) -> T:
        """The result of an action, retried while it raises TransientError. Attempts count from the last progress.

        A longer wait is reported.
        """
        attempt, failures, had = 0, 0, progress()
        for _ in range(self.most):
            if stop.is_set():
                raise Stopped
            try:
                return action()
            except TransientError as error:
                if progress() > had and not error.slow:
                    attempt, failures, had = 0, 0, progress()
                attempt, failures = attempt + (max(self.tries // 2, 1) if error.slow else 1), failures + 1
                if attempt >= self.tries:
                    raise FetchError(f"{what}: {error}; {failures} attempts failed: try again later") from None
                seconds = self.pause(attempt - 1, error.retry_after, random.random())
                if seconds >= _REPORTED:
                    report(f"{what}: {error} at attempt {failures}; retrying in {seconds:.0f} s")
                if stop.wait(seconds):
                    raise Stopped from None
        raise FetchError(f"{what}: it was interrupted {self.most} times: use another connection")


PATIENCE = Patience()


def retry_after(header: str | None, now: float) -> float | None:
    """The pause that a ``Retry-After`` header requests, in seconds: a number, or a date; None where it is neither.

    >>> retry_after("7", 0.0), retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 50.0), retry_after("soon", 0.0)
    (7.0, 10.0, None)
    """
    text = (header or "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - now, 0.0)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
