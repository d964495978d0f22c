"""The index arithmetic of products of matrices, followed thread by thread: a whole block's work, done in Python."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.own.matrix.staging import MATRIX, WARP, Side, Staging, Threads
from precast.loader.contract.format.target import Target

SIDES = [
    Side(along, depth, contiguous_k, bits, granule, together, copied)
    for bits, granule, together, copies in (
        (64, 4, 4, (16, 8)),
        (32, 4, 4, (16, 4)),
        (32, 4, 1, (16,)),
        (16, 8, 8, (16,)),
    )
    for along, depth, contiguous_k, copied in product((64, 128), (16, 32), (True, False), copies)
]


@pytest.mark.parametrize("side", SIDES, ids=str)
@pytest.mark.parametrize("threads", [64, 128])
def test_the_copies_of_a_stage_fill_it_once(side: Side, threads: int) -> None:
    assert side.refusal(threads) is None
    written: Counter[int] = Counter()
    for thread in range(threads):
        line, position = side.first_copy(thread)
        for number in range(side.copies(threads)):
            down, right = side.later_copy(number, threads)
            assert 0 <= line + down < side.lines and position + right + side.vector <= side.width
            places = [side.offset(line + down, position + right + e) for e in range(side.vector)]
            assert places == list(range(places[0], places[0] + side.vector)), "one copy writes neighbours"
            assert places[0] % side.vector == 0, "at an aligned place"
            written.update(places)
    assert written == Counter(range(side.elements))


@pytest.mark.parametrize("side", SIDES, ids=str)
def test_neighbouring_threads_copy_neighbouring_memory(side: Side) -> None:
    for thread in range(127):
        (line, position), (next_line, next_position) = side.first_copy(thread), side.first_copy(thread + 1)
        assert (next_line, next_position) in ((line, position + side.vector), (line + 1, 0))


def banks(side: Side, elements: list[int]) -> set[int]:
    """The banks, four bytes wide, of what is read at once."""
    bytes_ = [byte for e in elements for byte in range(e * side.bits // 8, (e + 1) * side.bits // 8, 4)]
    return {byte // 4 % 32 for byte in bytes_}


@pytest.mark.parametrize("side", [s for s in SIDES if s.bits == 64], ids=str)
def test_half_a_warp_reads_float64_without_conflicts(side: Side) -> None:
    """Of eight bytes each, half a warp's reads are served at once if they are in different banks."""
    for along, k in product(range(0, side.along, 8), range(0, side.depth, 4)):
        for half in (0, 16):
            lanes = [(along + lane // 4, k + lane % 4) for lane in range(half, half + 16)]
            assert len(banks(side, [side.at(*one) for one in lanes])) == 32


@pytest.mark.parametrize("side", [s for s in SIDES if s.bits == 16], ids=str)
@pytest.mark.parametrize("by_rows", [True, False])
def test_matrices_of_eight_rows_are_read_without_conflicts_and_are_those_that_are_meant(
    side: Side, by_rows: bool
) -> None:
    seen: Counter[tuple[int, int]] = Counter()
    for matrix in range(4):
        elements = []
        for lane in range(matrix * 8, matrix * 8 + 8):
            down, right = side.matrix_row(lane, by_rows)
            row = [(down, right + e) if side.contiguous_k else (down + e, right) for e in range(MATRIX)]
            places = [side.at(16 + a, 0 + k) for a, k in row]
            assert places == list(range(places[0], places[0] + 8)) and places[0] % 8 == 0
            elements += places
            second, third = matrix & 1, matrix >> 1
            along, k = (second, third) if by_rows else (third, second)
            assert all(a // 8 == along and kk // 8 == k for a, kk in row)
            seen.update(row)
        assert len(banks(side, elements)) == 32
    assert seen == Counter(product(range(16), range(16)))


@pytest.mark.parametrize("depth", [8, 16, 32])
def test_threads_that_multiply_alone_read_without_conflicts_and_have_every_number(depth: int) -> None:
    threads, first = Threads(8, 8), Side(128, depth, contiguous_k=True, bits=32, granule=4, together=4, copied=16)
    second = Side(128, depth, contiguous_k=False, bits=32, granule=4, together=1, copied=16)
    have: Counter[tuple[int, int]] = Counter()
    for lane in range(WARP):
        top, left = threads.first(lane)
        rows = [top + threads.row(i) for i in range(threads.rows)]
        columns = [left + threads.column(j) + e for j in range(threads.columns // 4) for e in range(4)]
        have.update(product(rows, columns))
    assert have == Counter(product(range(32), range(64)))
    for i, k in product(range(threads.rows), range(0, depth, 4)):
        distinct = {threads.first(lane)[0] + threads.row(i) for lane in range(WARP)}
        places = [first.at(row, k) + e for row in distinct for e in range(4)]
        assert len(banks(first, places)) == 4 * len(distinct), "what several threads read counts once"
    for j, k in product(range(2), range(depth)):
        runs = {threads.first(lane)[1] + threads.column(j) for lane in range(8)}
        assert len(banks(second, [second.at(c, k) + e for c in runs for e in range(4)])) == 32


@given(st.integers(1, 70), st.integers(1, 70))
def test_every_tile_is_one_blocks(rows: int, columns: int) -> None:
    side = Side(64, 16, contiguous_k=True, bits=64, granule=4, together=4, copied=16)
    staging = Staging(side, side, (2, 2), 3)
    seen = Counter(staging.tile(block, rows, columns) for block in range(rows * columns))
    assert seen == Counter(product(range(rows), range(columns)))


@pytest.mark.parametrize(("across", "tile"), [((2, 2), (128, 64)), ((2, 4), (128, 128)), ((4, 1), (128, 64))])
def test_the_warps_share_the_tile(across: tuple[int, int], tile: tuple[int, int]) -> None:
    first, second = (Side(along, 16, contiguous_k=True, bits=64, granule=4, together=4, copied=16) for along in tile)
    staging = Staging(first, second, across, 3)
    corners = [staging.corner(warp) for warp in range(staging.threads // WARP)]
    seen = Counter(
        (row + r, column + c)
        for row, column in corners
        for r, c in product(range(staging.warp_rows), range(staging.warp_columns))
    )
    assert seen == Counter(product(range(tile[0]), range(tile[1])))


def staging(along: int = 128, depth: int = 16, across: tuple[int, int] = (2, 2), stages: int = 4) -> Staging:
    side = Side(along, depth, contiguous_k=True, bits=64, granule=4, together=4, copied=16)
    return Staging(side, side, across, stages)


@pytest.mark.parametrize(
    ("given", "target", "words"),
    [
        (staging(), "sm_90a", None),
        (staging(stages=3), "sm_80", None),
        (staging(), "sm_80", "4 stages take 131072 bytes, of 101376 on sm_80: use fewer, or a smaller tile"),
        (staging(stages=8), "sm_100a", "8 stages take 262144 bytes, of 232448 on sm_100a"),
        (staging(stages=1), "sm_90a", "use 2 or more"),
        (staging(along=96, depth=24), "sm_90a", "the k of the tile is 24: use a power of two, 4 or more"),
        (staging(across=(2, 3)), "sm_90a", "the n of the tile is 128: use a multiple of 24"),
        (staging(across=(3, 1), along=192), "sm_90a", "96 threads cannot share 192 by 16 elements evenly"),
        (staging(across=(8, 8)), "sm_90a", "2048 threads, 1 times, are too many"),
        (staging(across=(0, 1)), "sm_90a", "counted from 1"),
    ],
)
def test_what_a_block_cannot_do_is_refused_with_what_it_can(given: Staging, target: str, words: str | None) -> None:
    reason = given.refusal((8, 8, 4), Target.parse(target))
    assert reason is None if words is None else reason is not None and words in reason
