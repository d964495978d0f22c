"""The index arithmetic of the kernels, followed thread by thread: every element once, and nothing else."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.own.rows import WARP, Split

THREADS = st.sampled_from([32, 64, 128, 256, 512, 1024])


@given(st.integers(1, 20000), st.sampled_from([16, 32]), THREADS)
def test_the_lanes_of_a_row_cover_it_once(vectors: int, bits: int, threads: int) -> None:
    vector = 128 // bits
    split = Split.of(vectors * vector, bits, threads)
    assert (split.vector, split.vectors) == (vector, vectors)
    assert split.lanes & (split.lanes - 1) == 0 and split.rows * split.lanes == threads
    seen: Counter[int] = Counter()
    for step in range(split.steps):
        live = [lane + step * split.lanes for lane in range(split.lanes) if lane + step * split.lanes < vectors]
        assert split.whole(step) == (len(live) == split.lanes)
        seen.update(live)
    assert seen == Counter(range(vectors))


@given(st.integers(1, 20000), THREADS)
def test_warps_of_a_row_are_whole_and_their_sums_stand_together(vectors: int, threads: int) -> None:
    split = Split.of(vectors * 8, 16, threads)
    for row in range(split.rows):
        lanes = range(row * split.lanes, (row + 1) * split.lanes)
        if split.warps == 1:  # a butterfly over `lanes` threads must not leave their warp
            assert lanes[0] // WARP == lanes[-1] // WARP
        else:
            start = lanes[0] // split.lanes * split.warps
            assert {t // WARP for t in lanes} == set(range(start, start + split.warps))


@given(st.integers(1, 20000), st.sampled_from([16, 32]), THREADS)
def test_what_is_held_leaves_registers_to_work_with(vectors: int, bits: int, threads: int) -> None:
    split = Split.of(vectors * 128 // bits, bits, threads)
    assert not split.held or split.steps * 8 <= min(255, 65536 // threads) // 2


@pytest.mark.parametrize(("rows", "lanes"), [(0, 8), (1, 8), (15, 8), (16, 8), (17, 8), (5, 128)])
def test_every_row_is_written_once(rows: int, lanes: int) -> None:
    split = Split(8, lanes * 2, 128, lanes)
    blocks = max((rows + split.rows - 1) // split.rows, 1)
    written: Counter[int] = Counter()
    for block in range(blocks):
        first = block * split.rows
        if first < rows:
            for thread in range(0, split.threads, lanes):
                row = first + thread // lanes
                assert 0 <= min(row, rows - 1) < rows
                written.update([row] if row < rows else [])
    assert written == Counter(range(rows))


@given(st.integers(0, 3000), st.sampled_from([4, 8]), st.sampled_from([32, 64]), st.sampled_from([1, 2, 4]))
def test_every_element_is_scaled_once(n: int, vector: int, threads: int, unroll: int) -> None:
    tile = vector * threads * unroll
    written: Counter[int] = Counter()
    for block in range(max((n + tile - 1) // tile, 1)):
        start = block * tile
        for thread in range(threads):
            offsets = [start + thread * vector + u * threads * vector for u in range(unroll)]
            assert all(offset % vector == 0 for offset in offsets)
            if start + tile <= n:
                live = offsets
            else:
                live = [offset for offset in offsets if offset + vector <= n]
                rest = n - n % vector + thread
                written.update([rest] if rest < n else [])
            for offset in live:
                written.update(range(offset, offset + vector))
    assert written == Counter(range(n))
