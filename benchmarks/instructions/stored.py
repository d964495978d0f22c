"""Measured results in short: what the tests replay without a GPU. `python -m instructions.stored RESULTS FILE`.

Scalar cases keep the results of their first 64 operands; products keep a checksum for each tile, functions one for each
256 arguments of a sample.
"""

from __future__ import annotations

import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import functions, products
from .operands import FLOATS, bits
from .record import unpacked

CHUNK, EVERY = 256, 509  # arguments of a checksum; one of so many of a sweep
KEPT = 64
Arrays = dict[str, NDArray[np.generic]]


def load(path: Path) -> Arrays:
    """The arrays of a file that `instructions.record` or this module wrote."""
    return dict(np.load(io.BytesIO(lzma.decompress(path.read_bytes()))))


def checksums(array: NDArray[np.generic], rows: int) -> NDArray[np.uint32]:
    """A checksum of each of so many equal parts of an array."""
    parts = np.ascontiguousarray(array).reshape(rows, -1)
    return np.array([zlib.crc32(part.tobytes()) for part in parts], np.uint32)


def product_checksums(product: products.Product, registers: NDArray[np.generic]) -> NDArray[np.uint32]:
    """A checksum for each tile. Of float64 the bits of NaNs do not count, and the last tenth is left out: its inputs
    depend on how a library sums."""
    if product.c != "f64":
        return checksums(registers, len(registers))
    tiles = len(registers) * 9 // 10
    numbers = products.matrices(product, registers[:tiles].astype("<u4"))
    return checksums(without_nans("f64", numbers), tiles)


def without_nans(kind: str, words: NDArray[np.generic]) -> NDArray[np.generic]:
    """Words of a kind with one value for all NaNs, in each half of a pair."""
    half = kind.removesuffix("x2")
    if half not in FLOATS or half in ("tf32", "e4m3", "e5m2"):
        return words
    width, exponent, mantissa = bits(half), *FLOATS[half]
    parts = np.ascontiguousarray(words).view(f"<u{width // 8}")
    magnitude = parts & parts.dtype.type((1 << (width - 1)) - 1)
    infinite = parts.dtype.type(((1 << exponent) - 1) << mantissa)
    same = np.where(magnitude > infinite, parts.dtype.type((1 << (width - 1)) - 1), parts)
    return same.view(words.dtype)


def arguments() -> Iterator[tuple[str, str, NDArray[np.uint32]]]:
    """For each function: a name, the opcode, and its arguments: samples of all exponents, and a part of each sweep."""
    for function, opcode in functions.FUNCTIONS.items():
        words = functions.samples(function).astype("<u4")
        yield f"sample {function}", opcode, words[: len(words) // CHUNK * CHUNK]
    for sweep in functions.sweeps():
        every = np.arange(0, sweep.count, 1 if "x2" in sweep.function else EVERY, dtype=np.int64)
        every = every[: len(every) // CHUNK * CHUNK]
        words = (sweep.first + every * sweep.step).astype("<u4")
        yield f"sweep {sweep.name}", functions.FUNCTIONS.get(sweep.function, sweep.function), words


def reduced(results: Path) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """All that is kept of a folder of results."""
    for name, array in load(results / "scalar.npz.xz").items():
        yield f"scalar {name}", array[:KEPT]
    measured = load(results / "products.npz.xz")
    for product in products.products():
        yield f"product {product.name}", product_checksums(product, measured[product.name])
    samples = load(results / "samples.npz.xz")
    sweeps: Arrays = {}
    for path in sorted(results.glob("sweeps*.npz")):
        sweeps |= dict(np.load(path))
    for name, _, words in arguments():
        kind, _, rest = name.partition(" ")
        if kind == "sample":
            values = samples[rest][: len(words)]
        else:
            sweep = next(s for s in functions.sweeps() if s.name == rest)
            places = (words.astype(np.int64) - sweep.first) // sweep.step
            values = unpacked(sweeps[rest])[places]
        yield name, checksums(values.astype("<u4"), len(words) // CHUNK)


def main() -> int:
    """Write the short form of a folder of results."""
    buffer = io.BytesIO()
    np.savez(buffer, **dict(reduced(Path(sys.argv[1]))))
    Path(sys.argv[2]).write_bytes(lzma.compress(buffer.getvalue(), preset=9))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
