"""Messages between a build and its child processes: a JSON header and attachments, each preceded by its length.

Pickles are never used: a child runs code of other people, and its replies are checked like any other input.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

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
