"""Matrices that show how tensor cores add: cancellation, distances of exponents, ties, denormals, special values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .operands import FLOATS, Stream, Words, values
from .products import Matrix, Product

DISTRIBUTIONS = ("near", "wide", "sparse", "cancel", "tiny", "powers", "special", "large", "small", "opposite")
# Exponents of the factors and of C; the share of zeros; whether mantissas are zero.
RANGES = {
    "near": ((-3, 0), (-4, 2), 0, False),
    "wide": ((-15, 15), (-30, 30), 10, False),
    "sparse": ((-15, 15), (-30, 30), 75, False),
    "cancel": ((-3, 3), (-24, 0), 5, False),
    "tiny": ((-80, -55), (-149, -110), 30, False),
    "powers": ((-13, 13), (-26, 26), 50, True),
    "special": ((-15, 15), (-30, 30), 30, False),
    "large": ((-6, 0), (-2, 30), 0, False),
    "small": ((0, 3), (0, 14), 40, False),
    "opposite": ((-4, 4), (-12, 0), 0, False),
}
TILES = {"mma": 16, "wgmma": 6}  # of each distribution


def encode(kind: str, sign: Words, exponent: NDArray[np.int64], mantissa: Words) -> Words:
    """Bits of numbers; below the least exponent they are denormal, above the greatest they get the greatest."""
    width, digits = FLOATS[kind]
    bias = (1 << (width - 1)) - 1
    field = exponent + bias
    down = np.clip(1 - field, 0, digits + 1).astype(np.uint64)
    whole = mantissa | np.uint64(1 << digits)
    top = (1 << width) - (2 if kind != "e4m3" else 1)
    normal = np.clip(field, 1, top).astype(np.uint64) << np.uint64(digits) | mantissa
    if kind == "e4m3":
        normal = np.where(normal == 0x7F, 0x7E, normal).astype(np.uint64)
    bits = np.where(field >= 1, normal, whole >> down)
    bits = bits | sign << np.uint64(width + digits)
    return bits << np.uint64(13) if kind == "tf32" else bits


def _floats(
    kind: str, bounds: tuple[int, int], zeros: int, plain: bool, shape: tuple[int, ...], stream: Stream
) -> Words:
    count = int(np.prod(shape))
    least, greatest = bounds
    exponent = stream.below(greatest - least + 1, count).astype(np.int64) + least
    digits = FLOATS[kind][1]
    mantissa = np.zeros(count, np.uint64) if plain else stream.words(count) >> np.uint64(64 - digits)
    bits = encode(kind, stream.below(2, count), exponent, mantissa)
    if kind == "tf32":  # the bits that tf32 does not have
        bits = bits | np.where(stream.often(30, count), stream.below(1 << 13, count), np.uint64(0))
    return np.where(stream.often(zeros, count), bits & np.uint64(1 << 63 >> (63 - sum(FLOATS[kind]))), bits).reshape(
        shape
    )


def _bounds(kind: str, other: str, bounds: tuple[int, int]) -> tuple[int, int]:
    """Narrower ranges for narrow formats."""
    least = 2 - (1 << (FLOATS[kind][0] - 1)) - FLOATS[kind][1]
    del other
    low = max(bounds[0], least)
    return low, max(bounds[1], low + 4)


def _integers(product: Product, stream: Stream, tiles: int) -> tuple[Matrix, Matrix, Matrix]:
    k = product.k * product.steps
    a = values(product.a, tiles * product.rows * k, stream).reshape(tiles, product.rows, k)
    b = values(product.b, tiles * k * 8, stream).reshape(tiles, k, 8)
    return a, b, values("s32", tiles * product.rows * 8, stream).reshape(tiles, product.rows, 8)


def decode(kind: str, bits: Matrix) -> NDArray[np.float64]:
    """The numbers of bits, as float64 (f64 and f32 by view; special values of narrow formats are not met here)."""
    if kind in ("f32", "tf32"):
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    if kind == "f64":
        return bits.view(np.float64)
    width, digits = FLOATS[kind]
    field = (bits >> np.uint64(digits) & np.uint64((1 << width) - 1)).astype(np.int64)
    mantissa = (bits & np.uint64((1 << digits) - 1)).astype(np.float64)
    whole = np.where(field > 0, mantissa + (1 << digits), mantissa)
    number = np.ldexp(whole, np.maximum(field, 1) - ((1 << (width - 1)) - 1) - digits)
    return np.where(bits >> np.uint64(width + digits) & np.uint64(1) == 1, -number, number)


def _in_order(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Products of matrices with the sums in one order, on every machine."""
    total = np.zeros((len(a), a.shape[1], b.shape[2]))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(a.shape[2]):
            total += a[:, :, k, None] * b[:, k, None, :]
    return total


def _rounded(kind: str, numbers: NDArray[np.float64]) -> Words:
    with np.errstate(over="ignore"):
        if kind == "f32":
            return numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
        if kind == "f16":
            return numbers.astype(np.float16).view(np.uint16).astype(np.uint64)
    return numbers.view(np.uint64)


def tiles(product: Product) -> tuple[Matrix, Matrix, Matrix]:
    """A (tile, row, k), B (tile, k, column) and C (tile, row, column) as bits; `product.steps` steps along K."""
    stream = Stream(product.name)
    each = TILES[product.unit]
    if product.c == "s32":
        return _integers(product, stream, each * 4)
    k = product.k * product.steps
    parts: list[tuple[Matrix, Matrix, Matrix]] = []
    for name in DISTRIBUTIONS:
        factors, sums, zeros, plain = RANGES[name]
        shapes = ((each, product.rows, k), (each, k, 8), (each, product.rows, 8))
        a = _floats(product.a, _bounds(product.a, product.b, factors), zeros, plain, shapes[0], stream)
        b = _floats(product.b, _bounds(product.b, product.a, factors), zeros, plain, shapes[1], stream)
        c = _floats(product.c, _bounds(product.c, product.c, sums), zeros // 2, plain, shapes[2], stream)
        if name == "cancel":
            a[:, :, 1::2] = a[:, :, ::2] ^ np.uint64(
                1 << 63 >> (63 - (31 if product.a == "tf32" else sum(FLOATS[product.a])))
            )
            b[:, 1::2, :] = b[:, ::2, :] ^ stream.below(2, b[:, ::2, :].size).reshape(b[:, ::2, :].shape)
        if name == "special":
            for array, kind in ((a, product.a), (b, product.b), (c, product.c)):
                some = stream.often(2, array.size).reshape(array.shape)
                special = values(kind if kind != "tf32" else "f32", array.size, stream).reshape(array.shape)
                array[some] = special[some]
        if name == "opposite":
            c = _rounded(product.c, -_in_order(decode(product.a, a), decode(product.b, b)))
            c = c ^ stream.below(4, c.size).reshape(c.shape)
        parts.append((a, b, c))
    a, b, c = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return a, b, c
