"""Operands of instructions under measurement: the same numbers from a name on every machine."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

# Exponent and mantissa bits of each floating-point format.
FLOATS = {
    "f64": (11, 52),
    "f32": (8, 23),
    "tf32": (8, 10),
    "f16": (5, 10),
    "bf16": (8, 7),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
}
BITS = {"pred": 32, "f64": 64, "f32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "shift": 32, "lane": 32}


def bits(kind: str) -> int:
    """The width of an operand's register: `bits("f16x2")` is 32, `bits("s8")` is 32.

    >>> bits("f16x2"), bits("u64"), bits("e4m3x2")
    (32, 64, 16)
    """
    if kind.endswith("x2"):
        return 2 * bits(kind[:-2])
    if kind in BITS:
        return BITS[kind]
    return max(32, int(kind[1:])) if kind[1:] == "8" else int(kind[1:])


class Stream:
    """Random words from a name: a counter through a mixing function, so that no library's generator matters."""

    def __init__(self, name: str) -> None:
        self.state = np.uint64(zlib.crc32(name.encode()) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)

    def words(self, count: int) -> Words:
        """`count` words of 64 random bits."""
        with np.errstate(over="ignore"):
            z = self.state + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            self.state = z[-1]
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def below(self, limit: int, count: int) -> Words:
        """`count` numbers below `limit`."""
        return (self.words(count) >> np.uint64(16)) % np.uint64(limit)

    def choice(self, values: Words, count: int) -> Words:
        """`count` of the values."""
        return values[self.below(len(values), count).astype(np.int64)]

    def often(self, percent: int, count: int) -> NDArray[np.bool_]:
        """True in about `percent` of a hundred places."""
        return self.below(100, count) < np.uint64(percent)


def float_specials(kind: str) -> Words:
    """Numbers at which a floating-point instruction is easily wrong, of both signs."""
    exponent, mantissa = FLOATS[kind]
    one = ((1 << (exponent - 1)) - 1) << mantissa
    top = ((1 << exponent) - 1) << mantissa
    low = 1 << mantissa
    positive = [0, 1, 2, low - 1, low, low + 1, one - 1, one, one + 1, one + (low >> 1), one + low, one - low]
    positive += [top - 1, top, top + 1, top + (low >> 1), top + low - 1, top - low, one + 8 * low, one + 8 * low + 1]
    sign = 1 << (exponent + mantissa)
    return np.array([*positive, *[p | sign for p in positive]], dtype=np.uint64)


def integer_specials(width: int) -> Words:
    """Numbers at the edges of signed and unsigned integers."""
    top = 1 << (width - 1)
    numbers = [0, 1, 2, 3, 7, 31, 32, 33, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 2 * top - 127, 2 * top - 128]
    return np.array([n % (2 * top) for n in [*numbers, 127, 128, 129, 255, 256, 65535, 65536]], dtype=np.uint64)


def values(kind: str, count: int, stream: Stream) -> Words:
    """Operands of a kind: half of them special, half of them any bits."""
    if kind.endswith("x2"):
        half = np.uint64(bits(kind[:-2]))
        return values(kind[:-2], count, stream) | (values(kind[:-2], count, stream) << half)
    if kind == "pred":
        return stream.below(2, count)
    if kind == "lane":
        return stream.below(32, count)
    if kind == "shift":
        return np.where(stream.often(80, count), stream.below(70, count), stream.words(count) >> np.uint64(32))
    width = 8 if kind[1:] == "8" else bits(kind)
    special = float_specials(kind) if kind in FLOATS else integer_specials(width)
    random = stream.words(count) >> np.uint64(64 - width)
    if kind in FLOATS:  # a third of the random numbers lie near one, where sums and fractions meet
        exponent, mantissa = FLOATS[kind]
        field = np.uint64(((1 << exponent) - 1) << mantissa)
        middle = (1 << (exponent - 1)) - 1
        near = (stream.below(min(40, middle), count) + np.uint64(middle - min(20, middle // 2))) << np.uint64(mantissa)
        random = np.where(stream.often(40, count), (random & ~field) | near, random)
    chosen = np.where(stream.often(35, count), stream.choice(special, count), random)
    if kind[0] == "s" and width < 32:  # registers hold small integers extended by their sign
        sign = chosen >> np.uint64(width - 1) & np.uint64(1)
        chosen = np.where(sign == 1, chosen | np.uint64(0xFFFFFFFF << width & 0xFFFFFFFF), chosen)
    return chosen


def related(kind: str, first: Words, stream: Stream) -> Words:
    """Operands of which some equal, negate or nearly equal those of another operand of the same kind."""
    count = len(first)
    own = values(kind, count, stream)
    if kind not in FLOATS:
        return np.where(stream.often(15, count), first, own)
    sign = np.uint64(1 << sum(FLOATS[kind]))
    near = first ^ (stream.below(8, count) if FLOATS[kind][1] > 3 else np.uint64(1)) ^ (stream.below(2, count) * sign)
    return np.where(stream.often(25, count), near, own)


def expand(text: str) -> Iterator[str]:
    """Every word of a pattern with braces.

    >>> list(expand("add{,.ftz}.{f32,f64}"))
    ['add.f32', 'add.f64', 'add.ftz.f32', 'add.ftz.f64']
    """
    begin = text.find("{")
    if begin < 0:
        yield text
        return
    end = text.index("}", begin)
    for word in text[begin + 1 : end].split(","):
        yield from expand(text[:begin] + word + text[end + 1 :])
