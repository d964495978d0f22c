"""Answers of a server: read no further than they may go, and shown as what may be shown."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Mapping

from precast.loader.contract.values import Immutable
from precast.loader.errors import FetchError
from precast.loader.transport.patience import Passing, Patience, Stopped

CHUNK = 1 << 16
BROKEN = (OSError, http.client.HTTPException)
"""What a broken connection raises."""
_SAID = 300  # characters of a server's own words that an error repeats


class Answer(Immutable, kw_only=True):
    """What a server said: the status, the headers by lower-case name, the body as far as it was asked for."""

    url: str
    status: int
    headers: Mapping[str, str]
    data: bytes = b""

    @property
    def said(self) -> str:
        """The server's own words, for an error: one line of what can be printed."""
        return printable(self.data[: 4 * _SAID].decode("utf-8", "replace"))


class Body:
    """An answer whose body is still to be read, in parts."""

    def __init__(
        self, answer: Answer, response: http.client.HTTPResponse, patience: Patience, stop: threading.Event
    ) -> None:
        self.answer = answer
        self._response, self._patience, self._stop = response, patience, stop

    def chunks(self, most: int) -> Iterator[bytes]:
        """At most ``most`` bytes, as they come. An end before them is not noticed here: callers know the size."""
        deadline = self._patience.deadline(most)
        while most > 0:
            try:
                chunk = self._response.read1(min(most, CHUNK))
            except BROKEN as error:
                if self._stop.is_set():
                    raise Stopped from None
                raise Passing(f"the connection broke ({reason_of(error)})") from None
            if not chunk:
                return
            if self._stop.is_set():
                raise Stopped
            if time.monotonic() > deadline:
                raise Passing(f"it came at less than {self._patience.slowest} bytes a second")
            most -= len(chunk)
            yield chunk

    def read(self, limit: int) -> bytes:
        """The whole body, which must not be larger than a limit."""
        stated = self._response.length
        if stated is not None and stated > limit:
            raise FetchError(
                f"{self.answer.url} has {stated} bytes, more than the {limit} that it may have: check the address"
            )
        data = b"".join(self.chunks(limit + 1))
        if len(data) > limit:
            raise FetchError(f"{self.answer.url} has more than the {limit} bytes that it may have: check the address")
        if stated is not None and len(data) < stated:
            raise Passing(f"the connection ended after {len(data)} of {stated} bytes")
        return data


def printable(text: str) -> str:
    """Words of a server as one short line that a terminal does nothing else with than to show it.

    >>> printable("closed for\\n \\x1b[31m lunch")
    'closed for ?[31m lunch'
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))[:_SAID]


def reason_of(error: BaseException) -> str:
    """What broke a connection, in short."""
    return printable(f"{type(error).__name__}: {error}".rstrip(": "))
