"""Which tiles of this project's ``gemm`` on Hopper are worth measuring: ``gemm_tiles.py [--dtype D]``.

It needs no GPU. A time is estimated by whole waves of tiles on an H200, for layers of models at some numbers of rows.
What is printed are tiles, each the one that helps most after those before it, with the mean and the worst of the
estimates by the best of all tiles. ``benchmarks/gemm_candidates.py`` and ``precast tune measure`` then measure them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from precast.kernels.own.matrix.blocking import Blocking

ROWS = (72, 96, 112, 128, 160, 192, 208, 256, 288, 320, 352, 384, 448, 512, 576, 640, 704, 768, 800, 896, 1024)
LAYERS = (  # (n, k)
    (4096, 4096), (4096, 14336), (5120, 8192), (6144, 4096), (7168, 2048), (8192, 8192), (8192, 28672), (10240, 5120),
    (12288, 4096), (24576, 4096), (28672, 4096), (51200, 5120), (57344, 8192),
)  # fmt: skip
SECOND = range(48, 257, 8)
# An H200: blocks that run at once, by the blocks of a cluster; clocks of a microsecond; bytes that a microsecond reads.
AT_ONCE = {1: 132, 2: 132, 3: 117, 4: 120, 5: 110, 6: 102, 7: 105, 8: 120}
CLOCKS, MEMORY = 1980, 4.3e6
# Of its launches, fitted to 5800 times of 157 tiles, which are missed by a tenth: microseconds of one with little to
# do, more for each halving of k and each wave; clocks of a step beside those of the tensor core; bytes of a clock from
# the L2 cache.
EMPTY, SHARED, WAVE = 10.0, 3.0, 2.5
BESIDE, OUT_OF_L2 = 50, 40
_STEP = 32  # bytes of k that one instruction multiplies
_WIDTHS = {"bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}


@dataclass(frozen=True, slots=True)
class Size:
    """One product."""

    m: int
    n: int
    k: int


def step_clocks(one: Blocking) -> float:
    """Clocks that an SM takes for a step of one tile: those of the tensor core, or what shared memory and L2 allow.

    >>> step_clocks(Blocking(tokens=192, rows=192, depth=64, swap=True, across=2))
    338.0
    """
    multiply = one.first * one.second / 128
    read = one.first // 64 * (64 + one.second) * _STEP / 128  # each 64 of the first side read all of the second
    write = (one.first + one.second) * _STEP / 128
    from_l2 = (one.tokens / one.across + one.rows / one.along) * _STEP / OUT_OF_L2
    return max(multiply + BESIDE, read + write + 12, from_l2)


def microseconds(one: Blocking, size: Size) -> float:
    """About how long a product takes: whole waves of its tiles, or the time to read the matrices.

    >>> wide = Blocking(tokens=200, rows=192, depth=64, swap=True)
    >>> round(microseconds(wide, Size(200, 24576, 4096))), round(microseconds(wide, Size(201, 24576, 4096)))
    (59, 103)
    """
    blocks, at_once = one.clusters(size.m, size.n) * one.cluster, AT_ONCE[one.cluster] * one.residents
    waves = math.ceil(blocks / at_once)
    steps = math.ceil(size.k * one.width / _STEP / one.split)
    most = one.residents if blocks > AT_ONCE[one.cluster] else 1  # tiles of an SM in a wave, which share it
    took = EMPTY + SHARED * (one.split.bit_length() - 1) + WAVE * (waves - 1)
    took += waves * most * steps * step_clocks(one) / CLOCKS
    read = (size.m + size.n) * size.k * one.width + 2 * size.m * size.n
    return max(took, EMPTY + read / MEMORY)


def blockings(width: int) -> Iterator[Blocking]:
    """Every tile that can be built, and holds at least three steps of k in shared memory."""
    shared = ((1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (4, 2), (2, 4))
    for swap, first, second, split, (along, across), residents in product(
        (True, False), (64, 128, 192, 256), SECOND, (1, 2, 3, 4), shared, (1, 2)
    ):
        tokens, rows = (second, first) if swap else (first, second)
        one = Blocking(
            tokens=tokens, rows=rows, depth=128 // width, swap=swap, split=split, along=along, across=across,
            residents=residents, width=width,
        )  # fmt: skip
        if rows % 16 == 0 and one.cluster in AT_ONCE and one.refusal() is None and one.stages >= 3:
            yield one


def cover(times: Sequence[Sequence[float]], count: int) -> Iterator[tuple[int, float, float]]:
    """Positions of rows, each the one that helps most, with the mean and the worst of what the best so far take by the
    best of all.

    >>> [(row, mean) for row, mean, _ in cover([[1.0, 4.0], [2.0, 2.0], [4.0, 1.0]], 3)]
    [(1, 2.0), (0, 1.5), (2, 1.0)]
    """
    best = [min(column) for column in zip(*times, strict=True)]
    so_far = [math.inf] * len(best)

    def lost(row: Sequence[float]) -> float:  # far from the best counts for more
        return sum(min(a, b, 3 * c) ** 4 / c**4 for a, b, c in zip(row, so_far, best, strict=True))

    left = set(range(len(times)))
    for _ in range(min(count, len(times))):
        chosen = min(sorted(left), key=lambda row: lost(times[row]))
        left.remove(chosen)
        so_far = [min(a, b) for a, b in zip(so_far, times[chosen], strict=True)]
        ratios = [a / b for a, b in zip(so_far, best, strict=True)]
        yield chosen, statistics.fmean(ratios), max(ratios)


def text(one: Blocking) -> str:
    """As a manifest has it.

    >>> text(Blocking(tokens=200, rows=192, depth=64, swap=True, along=2))
    '{tile: [200, 192], swap: true, cluster: [2, 1], split: 1, residents: 1}'
    """
    swap, cluster = str(one.swap).lower(), [one.along, one.across]
    tile = [one.tokens, one.rows]
    return f"{{tile: {tile}, swap: {swap}, cluster: {cluster}, split: {one.split}, residents: {one.residents}}}"


def main(argv: list[str] | None = None) -> int:
    """Print the tiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=sorted(_WIDTHS), default="bfloat16")
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args(argv)
    every = list(blockings(_WIDTHS[options.dtype]))
    sizes = [Size(m, n, k) for m in ROWS for n, k in LAYERS]
    times = [[microseconds(one, size) for size in sizes] for one in every]
    print(f"{len(every)} tiles, {len(sizes)} sizes")
    for row, mean, worst in cover(times, options.count):
        print(f"{text(every[row]):<80} {mean:.4f} {worst:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
