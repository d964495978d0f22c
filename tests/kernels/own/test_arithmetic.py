"""The index arithmetic that device code uses, followed thread by thread: every element once, and nothing else."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.own.rows import WARP, Split
from precast.kernels.own.tiles import Tile

THREADS = st.sampled_from([32, 64, 128, 256, 512, 1024])


@given(st.integers(1, 20000), st.sampled_from([16, 32]), THREADS)
def test_the_lanes_of_a_row_cover_it_once(vectors: int, bits: int, threads: int) -> None:
    vector = 128 // bits
    split = Split.of(vectors * vector, bits, threads)
    assert (split.vector, split.vectors) == (vector, vectors)
    assert split.lanes & (split.lanes - 1) == 0 and split.rows * split.lanes == threads
    seen: Counter[int] = Counter()
    for step in range(split.steps):
        live = [i for thread in range(split.lanes) if (i := split.index(thread, step)) < vectors]
        assert split.whole(step) == (len(live) == split.lanes)
        seen.update(live)
    assert seen == Counter(range(vectors))


@given(st.integers(0, 80), st.integers(1, 400), st.sampled_from([32, 64, 128]))
def test_every_vector_of_every_row_is_written_once(rows: int, vectors: int, threads: int) -> None:
    split = Split.of(vectors * 8, 16, threads)
    written: Counter[tuple[int, int]] = Counter()
    for block in range(max(split.blocks(rows), 1)):
        for thread in range(threads):
            row = split.row(block * split.rows, thread)
            if row < rows:
                indices = [split.index(thread, step) for step in range(split.steps)]
                written.update((row, index) for index in indices if index < vectors)
    assert written == Counter((row, index) for row in range(rows) for index in range(vectors))


@given(st.integers(1, 20000), THREADS)
def test_warps_of_a_row_are_whole_and_their_sums_are_adjacent(vectors: int, threads: int) -> None:
    split = Split.of(vectors * 8, 16, threads)
    for row in range(split.rows):
        sharing = [thread for thread in range(threads) if split.row(0, thread) == row]
        warps = {thread // WARP for thread in sharing}
        if split.warps == 1:  # a butterfly over `lanes` threads must not leave their warp
            assert len(warps) == 1
        else:
            first = {split.first_warp(thread) for thread in sharing}
            assert first == {min(warps)} and warps == set(range(min(warps), min(warps) + split.warps))


@given(st.integers(1, 20000), st.sampled_from([16, 32]), THREADS)
def test_what_is_held_leaves_half_of_the_registers_free(vectors: int, bits: int, threads: int) -> None:
    split = Split.of(vectors * 128 // bits, bits, threads)
    assert not split.fits_registers or split.steps * 8 <= min(255, 65536 // threads) // 2


@given(
    tiles=st.integers(0, 3),
    beyond=st.integers(-9, 9) | st.integers(0, 3000),
    vector=st.sampled_from([4, 8]),
    threads=st.sampled_from([32, 64]),
    unroll=st.sampled_from([1, 2, 4]),
)
def test_every_element_of_every_tile_is_written_once(
    tiles: int, beyond: int, vector: int, threads: int, unroll: int
) -> None:
    tile = Tile(vector, threads, unroll)
    n = max(0, tiles * tile.size + beyond)
    written: Counter[int] = Counter()
    for block in range(max(tile.blocks(n), 1)):
        start = block * tile.size
        for thread in range(threads):
            offsets = [tile.offset(tile.first(start, thread), u) for u in range(unroll)]
            assert all(offset % vector == 0 for offset in offsets), "each vector is aligned"
            if not tile.full(start, n):
                offsets = [offset for offset in offsets if tile.whole(offset, n)]
                written.update([rest] if (rest := tile.rest(n, thread)) < n else [])
            for offset in offsets:
                written.update(range(offset, offset + vector))
    assert written == Counter(range(n))
