"""Messages between a build and its workers: a JSON header and some bytes, each with its length before it.

Never pickles: a worker runs other people's code, and what it sends is read like any other file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from precast.loader.errors import FormatError
from precast.loader.format import fields
from precast.loader.format.config import canonical

_HEAD = struct.Struct("<4sII")
_LENGTH = struct.Struct("<Q")
_MAGIC = b"pcm1"
HEADER_LIMIT = 64 << 20
PART_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Message:
    """A header that JSON can hold, and attachments that it cannot.

    >>> Message.decode(Message({"a": 1}, (b"xyz",)).encode())
    Message(header={'a': 1}, parts=(b'xyz',))
    """

    header: Mapping[str, Any]
    parts: Sequence[bytes] = field(default=())

    def encode(self) -> bytes:
        """The message as bytes."""
        header = canonical(dict(self.header))
        pieces = [_HEAD.pack(_MAGIC, len(header), len(self.parts)), header]
        for part in self.parts:
            pieces += [_LENGTH.pack(len(part)), part]
        return b"".join(pieces)

    @classmethod
    def decode(cls, data: bytes) -> Message:
        """The message that these bytes are, all of them."""
        import io

        stream = io.BytesIO(data)
        message = cls.read(stream)
        if message is None or stream.read(1):
            raise FormatError("not one whole message")
        return message

    @classmethod
    def read(cls, stream: BinaryIO) -> Message | None:
        """The next message of a stream, or None at its end."""
        head = stream.read(_HEAD.size)
        if not head:
            return None
        if len(head) != _HEAD.size:
            raise FormatError("the stream ends inside a message")
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


def _exactly(stream: BinaryIO, size: int) -> bytes:
    pieces, left = [], size
    while left:
        piece = stream.read(left)
        if not piece:
            raise FormatError("the stream ends inside a message")
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
