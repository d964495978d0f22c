"""How a decode over latents is divided: every latent of every tile of heads once, and every sum in one place."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.own.attention.latent import (
    GROUP,
    HALF,
    HEADS,
    KEYS,
    PITCH,
    ROWS_OF_PAGE,
    VALUES,
    Latent,
    column,
    row,
)

SIZES = [Latent(keys=keys, page=page) for keys in KEYS for page in ROWS_OF_PAGE]
BUILT = [latent for latent in SIZES if latent.refusal() is None]


def test_which_sizes_are_built() -> None:
    assert {latent.keys for latent in BUILT} == {16, 32, 64}
    assert {latent.page for latent in BUILT} == set(ROWS_OF_PAGE)
    for latent in BUILT:
        shared = latent.query_bytes + latent.stages * latent.stage_bytes + latent.weight_bytes
        assert shared + 2048 <= 227 << 10, "shared memory of a block, with barriers and factors"
        assert latent.stages >= 2, "one is loaded while another is read"
        assert latent.keys % latent.rows == 0 and latent.page % latent.rows == 0
        assert latent.stages * latent.stage_bytes >= 2 * HEADS * PITCH * 4, "results take the place of the stages"
        assert latent.piece_bytes * (latent.keys // latent.rows) == latent.stage_bytes
        assert latent.stage_bytes % 1024 == latent.query_bytes % 1024 == latent.weight_bytes % 1024 == 0, "of swizzles"


@given(st.sampled_from(BUILT), st.integers(0, 300_000), st.integers(1, 200))
def test_every_step_of_a_sequence_is_in_one_split(latent: Latent, length: int, splits: int) -> None:
    steps = latent.steps(length)
    end = 0
    counts = set()
    for split in range(splits):
        first, count = latent.steps_of_split(steps, split, splits)
        assert first == end and count >= 0
        end = first + count
        counts.add(count)
    assert end == steps and max(counts) - min(counts) <= 1
    assert steps * latent.keys >= length > (steps - 1) * latent.keys or length == steps == 0


@given(st.integers(1, 300), st.integers(1, 9), st.integers(1, 9))
def test_every_tile_of_heads_has_its_blocks(heads: int, splits: int, batch: int) -> None:
    latent = Latent(keys=64, page=64)
    tiles = latent.tiles(heads)
    assert tiles * HEADS >= heads > (tiles - 1) * HEADS
    places = {latent.position(block, tiles, splits) for block in range(tiles * splits * batch)}
    assert places == {(t, s, b) for t in range(tiles) for s in range(splits) for b in range(batch)}


@given(st.sampled_from(BUILT), st.integers(0, 20_000))
def test_a_stage_takes_whole_pieces_of_pages(latent: Latent, step: int) -> None:
    """What is loaded begins where a piece of its page does, and runs to the next page in order."""
    for piece in range(latent.keys // latent.rows):
        key = step * latent.keys + piece * latent.rows
        place = key % latent.page // latent.rows
        assert key // latent.page * latent.page + place * latent.rows == key


def test_every_sum_is_in_one_thread() -> None:
    found: Counter[tuple[int, int]] = Counter()
    for thread in range(GROUP):
        for half in range(2):
            for pair in range(HALF // 8):
                start = column(thread, pair)
                assert start % 2 == 0, "two neighbours are written together"
                found.update((row(thread, half), start + i) for i in range(2))
    assert found == {(r, c): 1 for r in range(HEADS) for c in range(HALF)}
    assert 2 * HALF == VALUES


def test_results_are_written_to_shared_memory_without_conflicts() -> None:
    """Eight bytes a lane: each half of a warp touches every bank once. What is read is aligned to 16 bytes."""
    for warp in range(4):
        for half in range(2):
            for pair in range(HALF // 8):
                for lanes in (range(16), range(16, 32)):
                    places = [row(32 * warp + i, half) * PITCH + column(32 * warp + i, pair) for i in lanes]
                    assert sorted((place + i) % 32 for place in places for i in range(2)) == list(range(32))
    assert PITCH % 4 == 0
    assert {row(32 * warp + i, half) // 16 for warp in range(4) for i in range(32) for half in range(2)} == set(
        range(4)
    )
