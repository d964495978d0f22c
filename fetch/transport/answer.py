"""Answers of a server: read up to a limit, and printed without control characters."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from precast.fetch.transport.patience import Patience, Stopped, TransientError
from precast.loader.contract.values import Immutable
from precast.loader.errors import FetchError

CHUNK = 1 << 16
BROKEN = (OSError, http.client.HTTPException)
"""The exceptions of a broken connection."""
_TOO_SLOW = "it arrived at less than {} bytes per second"
_MESSAGE = 300  # characters of a server's message that an error repeats


class Answer(Immutable, kw_only=True):
    """An answer: the status, the headers by lower-case name, and the body as far as it was read."""

    url: str
    status: int
    headers: Mapping[str, str]
    data: bytes = b""

    @property
    def message(self) -> str:
        """The server's own message, for an error: one line of printable characters."""
        return printable(self.data[: 4 * _MESSAGE].decode("utf-8", "replace"))


class Body:
    """An answer whose body is still to be read, in parts. ``allow`` sets the time until which the connection stays."""

    def __init__(
        self,
        answer: Answer,
        response: http.client.HTTPResponse,
        patience: Patience,
        stop: threading.Event,
        allow: Callable[[float], None],
    ) -> None:
        self.answer = answer
        self._response, self._patience, self._stop, self._allow = response, patience, stop, allow

    def chunks(self, most: int) -> Iterator[bytes]:
        """At most ``most`` bytes, as they arrive. A shorter body is not an error here: callers check the size."""
        arrived, block_by = 0, self._patience.block_by()
        self._allow(block_by)  # also for what is not the body: the sizes of its chunks, and trailers
        while most > 0:
            try:
                chunk = self._response.read1(min(most, CHUNK))
            except BROKEN as error:
                if self._stop.is_set():
                    raise Stopped from None
                if time.monotonic() > block_by:
                    raise TransientError(_TOO_SLOW.format(self._patience.slowest), slow=True) from None
                raise TransientError(f"the connection broke ({reason_of(error)})") from None
            if self._stop.is_set():
                raise Stopped
            if time.monotonic() > block_by:  # also at the end: a connection that was ended looks like one
                raise TransientError(_TOO_SLOW.format(self._patience.slowest), slow=True)
            if not chunk:
                return
            most -= len(chunk)
            arrived += len(chunk)
            if arrived >= self._patience.block:
                arrived, block_by = 0, self._patience.block_by()
                self._allow(block_by)
            yield chunk

    def read(self, limit: int) -> bytes:
        """The whole body, which must not be larger than a limit."""
        stated = self._response.length
        if stated is not None and stated > limit:
            raise FetchError(f"{self.answer.url} has {stated} bytes, more than the limit of {limit}: check the address")
        data = b"".join(self.chunks(limit + 1))
        if len(data) > limit:
            raise FetchError(f"{self.answer.url} has more than the limit of {limit} bytes: check the address")
        if stated is not None and len(data) < stated:
            raise TransientError(f"the connection ended after {len(data)} of {stated} bytes")
        return data


def printable(text: str) -> str:
    """A server's message as one short line of printable characters.

    >>> printable("closed for\\n \\x1b[31m lunch")
    'closed for ?[31m lunch'
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))[:_MESSAGE]


def reason_of(error: BaseException) -> str:
    """Why a connection broke, in short."""
    return printable(f"{type(error).__name__}: {error}".rstrip(": "))
