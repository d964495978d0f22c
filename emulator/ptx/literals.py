"""Numbers, as PTX writes them, as the bits of a register."""

from __future__ import annotations

import re
import struct

_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?$")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?$")


def literal_bits(text: str, bits: int) -> int | None:
    """The bits of a number, in a register of so many bits; None where the text is not a number.

    Integers wrap; ``0f`` and ``0d`` are the bits of a float32 and of a float64; numbers with a point are floats.

    >>> literal_bits("-1", 32) == 0xFFFFFFFF, hex(literal_bits("0f3F800000", 32)), literal_bits("%r1", 32)
    (True, '0x3f800000', None)
    >>> hex(literal_bits("1.5", 64))
    '0x3ff8000000000000'
    """
    match = _INTEGER.match(text)
    if match:
        digits = match[2]
        number = int(digits, 8) if digits[0] == "0" and digits.isdecimal() else int(digits, 0)
        return (-number if match[1] == "-" else number) & ((1 << bits) - 1)
    if text[:2] in ("0f", "0F") and len(text) == 10:
        pattern = int(text[2:], 16)
        if bits != 64:
            return pattern
        return _double(struct.unpack("<f", struct.pack("<I", pattern))[0])
    if text[:2] in ("0d", "0D") and len(text) == 18:
        pattern = int(text[2:], 16)
        if bits == 64:
            return pattern
        return _single(struct.unpack("<d", struct.pack("<Q", pattern))[0])
    if _DECIMAL.match(text):
        return _double(float(text)) if bits == 64 else _single(float(text))
    return None


def _double(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def _single(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
