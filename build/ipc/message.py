"""Messages between a build and its child processes: a JSON header and attachments, each preceded by its length.

Pickles are never used: a child runs code of other people, and its replies are checked like any other input.
"""

from __future__ import annotations

import io
import json
import os
import select
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from precast.loader.contract.format import fields
from precast.loader.errors import FormatError

_HEAD = struct.Struct("<4sII")
_LENGTH = struct.Struct("<Q")
_MAGIC = b"pcm1"
HEADER_LIMIT = 256 << 20  # one message describes every variant of the largest plan
PART_LIMIT = 1 << 30


class Stream(Protocol):
    """A source of messages: ``read`` may return fewer bytes than requested, and returns none at the end."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Message:
    """A header, which is JSON, and attachments, which are bytes.

    >>> Message.decode(Message({"a": 1}, (b"xyz",)).encode())
    Message(header={'a': 1}, parts=(b'xyz',))
    """

    header: Mapping[str, Any]
    parts: Sequence[bytes] = field(default=())

    def encode(self) -> bytes:
        """The message as bytes."""
        header = json.dumps(dict(self.header), separators=(",", ":"), allow_nan=False).encode()
        pieces = [_HEAD.pack(_MAGIC, len(header), len(self.parts)), header]
        for part in self.parts:
            pieces += [_LENGTH.pack(len(part)), part]
        return b"".join(pieces)

    @classmethod
    def decode(cls, data: bytes) -> Message:
        """The message in these bytes, which have nothing else."""
        stream = io.BytesIO(data)
        message = cls.read(stream)
        if message is None or stream.read(1):
            raise FormatError("not one whole message")
        return message

    @classmethod
    def read(cls, stream: Stream) -> Message | None:
        """The next message of a stream, or None at its end."""
        head = stream.read(_HEAD.size)
        if not head:
            return None
        head += _exactly(stream, _HEAD.size - len(head))
        magic, length, count = _HEAD.unpack(head)
        if magic != _MAGIC or length > HEADER_LIMIT or count > 64:
            raise FormatError("not a message of this version")
        header = fields.as_object(fields.read_json(_exactly(stream, length), limit=HEADER_LIMIT))
        parts = []
        for _ in range(count):
            (size,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
            if size > PART_LIMIT:
                raise FormatError(f"an attachment of {size} bytes, more than {PART_LIMIT}")
            parts.append(_exactly(stream, size))
        return cls(header, tuple(parts))


def _exactly(stream: Stream, size: int) -> bytes:
    pieces, left = [], size
    while left:
        piece = stream.read(left)
        if not piece:
            raise FormatError("the stream ends inside a message")
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


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
