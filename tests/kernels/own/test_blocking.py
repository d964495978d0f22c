"""How a product is divided among blocks: everything is multiplied once, and what is asked for fits on an SM."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.own.blocking import Blocking

SIDES = st.sampled_from([8, 16, 24, 32, 64, 96, 128, 192, 256])
POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def blockings(draw: st.DrawFn) -> Blocking:
    return Blocking(
        tokens=draw(SIDES),
        rows=draw(st.sampled_from([64, 128, 192, 256])),
        depth=draw(st.sampled_from([64, 128, 256])),
        split=draw(POWERS),
        sharing=draw(POWERS),
        residents=draw(st.integers(1, 4)),
    )


@given(blockings(), st.integers(1, 700), st.integers(1, 900))
def test_every_tile_has_one_block_for_each_share_of_k(one: Blocking, m: int, n: int) -> None:
    tiles = one.token_tiles(m)
    places = Counter(one.place(block, tiles) for block in range(one.grid(m, n)))
    assert set(places.values()) == {1}
    needed = {
        (rank, row, token)
        for rank in range(one.split)
        for row in range(-(-n // one.rows))
        for token in range(-(-m // one.tokens))
    }
    assert needed <= {(rank, row, token) for rank, _, row, token in places}
    assert {token for _, _, _, token in places} == set(range(tiles))


@given(blockings(), st.integers(1, 700), st.integers(1, 900))
def test_the_blocks_of_a_cluster_have_one_tile_of_tokens_and_neighbouring_weights(
    one: Blocking, m: int, n: int
) -> None:
    tiles = one.token_tiles(m)
    for first in range(0, one.grid(m, n), one.cluster):
        places = [one.place(first + i, tiles) for i in range(one.cluster)]
        assert len({token for *_, token in places}) == 1
        for i, (rank, neighbour, row, _) in enumerate(places):
            assert neighbour * one.split + rank == i, "a block's number in its cluster is what others reach it by"
            assert row % one.sharing == neighbour
            receivers = [j for j in range(one.cluster) if one.receivers << rank >> j & 1]
            assert receivers == [j for j, place in enumerate(places) if place[0] == rank]


@given(blockings(), st.integers(1, 40000))
def test_every_step_of_k_is_taken_once(one: Blocking, k: int) -> None:
    taken = [rank + i * one.split for rank in range(one.split) for i in range(one.steps(k, rank))]
    assert sorted(taken) == list(range(-(-k // one.depth)))


@given(blockings())
def test_what_is_accepted_fits_on_an_sm(one: Blocking) -> None:
    if one.refusal():
        return
    of_a_block = 1024 + one.buffer_bytes  # the barriers, up to the alignment of the stages
    assert 16 * one.stages <= 1024 and one.stages >= 2
    assert of_a_block <= 227 << 10
    assert (of_a_block + 1024) * one.residents <= 228 << 10
    assert one.threads * one.residents <= 2048 and one.threads <= 1024
    assert one.weight_bytes % 1024 == 0 and (one.tokens // one.sharing) % 8 == 0
    sums = one.tokens * one.rows // (128 * one.groups)
    assert sums + 40 <= 65536 // (one.threads * one.residents)
    assert one.sum_bytes <= one.buffer_bytes


@given(blockings())
def test_threads_that_write_sums_together_use_different_banks(one: Blocking) -> None:
    """wgmma gives a warp's lanes eight rows and every second of eight tokens."""
    banks = {(lane // 4 + lane % 4 * 2 * one.pitch) % 32 for lane in range(32)}
    assert len(banks) == 32 and one.pitch * 4 % 16 == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tokens": 20}, "use a multiple of 8"),
        ({"tokens": 264}, "up to 256"),
        ({"rows": 96}, "use one of 64, 128, 192, 256"),
        ({"depth": 32}, "use 64, 128 or 256"),
        ({"split": 3}, "use powers of two"),
        ({"split": 8, "sharing": 2}, "take 16 blocks to a cluster"),
        ({"sharing": 4}, "use a multiple of 32"),
        ({"residents": 5}, "use 1 to 4"),
        ({"tokens": 128, "rows": 256, "depth": 256}, "does not fit in the shared memory"),
        ({"tokens": 256, "rows": 256, "depth": 64}, "use a smaller one"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_would_work(changed: dict[str, int], said: str) -> None:
    reason = Blocking(**{"tokens": 16, "rows": 64, "depth": 64, **changed}).refusal()
    assert reason and said in reason
