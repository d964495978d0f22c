"""How a product is divided among blocks: everything is multiplied once, and what is asked for fits on an SM."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast.kernels.own.matrix.blocking import Blocking

SIDES = st.sampled_from([8, 16, 24, 32, 64, 96, 128, 144, 192, 200, 208, 256])
POWERS = st.sampled_from([1, 2, 4, 8])
PAIRS = st.sampled_from([(1, 1), (1, 2), (2, 1), (4, 1), (1, 4)])


@st.composite
def blockings(draw: st.DrawFn) -> Blocking:
    along, across = draw(PAIRS)
    width = draw(st.sampled_from([1, 2]))
    return Blocking(
        tokens=draw(SIDES),
        rows=draw(SIDES),
        depth=draw(st.sampled_from([128, 256, 512])) // width,
        swap=draw(st.booleans()),
        split=draw(POWERS),
        along=along,
        across=across,
        residents=draw(st.integers(1, 4)),
        width=width,
    )


@given(blockings(), st.integers(1, 200), st.integers(1, 260))
def test_every_tile_has_one_block_for_each_share_of_k(one: Blocking, m: int, n: int) -> None:
    clusters = one.token_clusters(m)
    places = Counter(one.position(block, clusters) for block in range(one.grid(m, n)))
    assert set(places.values()) == {1}
    found = {(share, token, row) for share, _, token, row in places}
    assert len(found) == len(places)
    assert found >= {
        (share, token, row)
        for share in range(one.split)
        for token in range(-(-m // one.tokens))
        for row in range(-(-n // one.rows))
    }


@given(blockings(), st.integers(1, 200), st.integers(1, 260))
def test_blocks_that_load_together_have_one_side_in_common(one: Blocking, m: int, n: int) -> None:
    for first in range(0, one.grid(m, n), one.cluster):
        places = [one.position(first + i, one.token_clusters(m)) for i in range(one.cluster)]
        for i, (share, neighbour, token, row) in enumerate(places):
            assert neighbour * one.split + share == i, "a block's number in its cluster is what others reach it by"
            receivers = [j for j in range(one.cluster) if one.receivers << share >> j & 1]
            assert receivers == [j for j, place in enumerate(places) if place[0] == share]
            for j in receivers:
                if one.along == 1:
                    assert places[j][2] == token
                if one.across == 1:
                    assert places[j][3] == row
        assert len({(token, row) for _, _, token, row in places}) == one.sharing
    assert one.first_parts * one.second_parts == one.sharing
    assert one.first_shared == (one.first_parts > 1)
    assert not one.first_shared or one.swap == (one.along > 1), "what is shared is the side that they have in common"


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
    assert one.first_bytes % 1024 == 0 and one.first % 64 == 0 and one.second % 8 == 0
    assert (one.first if one.first_shared else one.second) % (8 * one.sharing) == 0
    fourth = -(-one.threads // 32 * one.residents // 4)  # warps of a fourth of the SM, which has 16384 registers
    launched = 16384 // (32 * fourth) // 8 * 8
    assert one.sums + 26 <= one.registers <= 255
    if one.lends:
        assert one.loaders == 4 and one.threads % 128 == 0
        assert one.groups * one.registers + one.kept <= (one.groups + 1) * launched
        assert one.second // 2 + 26 <= launched, "the compiler must fit one instruction in before registers are lent"
    else:
        assert one.loaders == 1 and one.registers <= launched
    tokens = one.eights * 8 if one.swap else one.tokens
    assert one.received_bytes + tokens * one.pitch * 2 <= one.buffer_bytes and one.pitch >= one.part
    assert (one.eights * 8 if one.swap else one.part) * one.split >= one.second, "the parts are not the whole tile"


def test_sums_that_need_more_registers_than_an_equal_share_take_those_of_the_warps_that_load() -> None:
    lent = {m: Blocking(tokens=m, rows=256, depth=64, swap=True).lends for m in (128, 136, 144, 200)}
    assert lent == {128: False, 136: False, 144: True, 200: True}
    assert Blocking(tokens=200, rows=256, depth=64, swap=True).threads == 384


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # few blockings that are drawn can be built
@given(blockings().filter(lambda one: one.refusal() is None))
def test_lines_of_a_matrix_that_are_stored_together_lie_in_different_banks(one: Blocking) -> None:
    """A matrix of 8 by 8 has eight lines of 16 bytes, one behind another by the pitch."""
    banks = [(line * one.pitch * 2 // 4 + word) % 32 for line in range(8) for word in range(4)]
    assert sorted(banks) == list(range(32)) and one.pitch % 8 == 0


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(blockings().filter(lambda one: one.refusal() is None))
def test_every_eight_of_a_tile_has_one_block_that_adds_it_up(one: Blocking) -> None:
    bounds = [one.first_eight(share) for share in range(one.split + 1)]
    assert bounds[0] == 0 and bounds[-1] * 8 == one.second and bounds == sorted(bounds)
    assert max(end - begin for begin, end in itertools.pairwise(bounds)) == one.eights
    assert one.eights * one.repeats == one.slots and one.slots * 4 * one.split >= one.sums


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tokens": 20}, "tile has m 20: use a multiple of 8"),
        ({"tokens": 264}, "up to 256"),
        ({"rows": 96}, "tile has n 96: use one of 64, 128, 192, 256, or build it without swap"),
        ({"tokens": 96, "swap": False}, "tile has m 96: use one of 64, 128, 192, 256, or build it with swap"),
        ({"tokens": 64, "rows": 20, "swap": False}, "tile has n 20"),
        ({"depth": 32}, "use one of 64, 128, 256"),
        ({"depth": 64, "width": 1}, "use one of 128, 256, 512"),
        ({"tokens": 208, "rows": 192}, "takes 104 registers"),
        ({"tokens": 208, "rows": 256}, "takes 208 registers"),
        ({"split": 0}, "use a split of 1 or more"),
        ({"split": 8, "across": 2}, "take 16 blocks to a cluster"),
        ({"along": 2, "across": 2}, "make one of them 1"),
        ({"across": 4}, "use a multiple of 32"),
        ({"residents": 5}, "use 1 to 4"),
        ({"tokens": 128, "rows": 256, "depth": 256}, "does not fit in the shared memory"),
        ({"tokens": 256, "rows": 256, "depth": 64}, "use a smaller one"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_would_work(changed: dict[str, int], said: str) -> None:
    given: dict[str, Any] = {"tokens": 16, "rows": 64, "depth": 64, "swap": True, **changed}
    reason = Blocking(**given).refusal()
    assert reason and said in reason
