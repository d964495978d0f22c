"""How a product is divided among blocks: everything is multiplied once, and what is asked for fits on an SM."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast.kernels.own.matrix.blocking import STAGED_BYTES, Blocking

SIDES = st.sampled_from([8, 16, 24, 32, 64, 96, 128, 144, 192, 200, 208, 256])
POWERS = st.sampled_from([1, 2, 4, 8])
PAIRS = st.sampled_from([(1, 1), (1, 2), (2, 1), (4, 1), (1, 4), (2, 2), (4, 2), (2, 4)])


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
        pingpong=draw(st.booleans()),
    )


def places(one: Blocking, number: int, m: int) -> list[tuple[int, int, int, int]]:
    """The share, the neighbour, and both tiles of each block of a cluster at its tile of that number."""
    ranks = [one.rank(block) for block in range(one.cluster)]
    return [(*rank, *one.position(number, rank[1], one.token_clusters(m))) for rank in ranks]


@given(blockings(), st.integers(1, 200), st.integers(1, 260))
def test_every_tile_has_one_block_for_each_share_of_k(one: Blocking, m: int, n: int) -> None:
    taken = [
        (k_slice, token, row)
        for number in range(one.clusters(m, n))
        for k_slice, _, token, row in places(one, number, m)
    ]  # fmt: skip
    assert len(set(taken)) == len(taken)
    assert set(taken) >= {
        (k_slice, token, row)
        for k_slice in range(one.split)
        for token in range(-(-m // one.tokens))
        for row in range(-(-n // one.rows))
    }


@given(blockings(), st.integers(1, 200), st.integers(1, 260))
def test_a_block_loads_for_those_that_have_the_same_share_and_the_same_side(one: Blocking, m: int, n: int) -> None:
    for number in range(one.clusters(m, n)):
        blocks = places(one, number, m)
        for i, (k_slice, cta_rank, token, row) in enumerate(blocks):
            assert cta_rank * one.split + k_slice == i, "a block's number in its cluster is what others reach it by"
            weights, tokens = (
                [j for j in range(one.cluster) if mask >> j & 1] for mask in one.receivers(k_slice, cta_rank)
            )
            assert weights == [j for j, other in enumerate(blocks) if (other[0], other[3]) == (k_slice, row)]
            assert tokens == [j for j, other in enumerate(blocks) if (other[0], other[2]) == (k_slice, token)]
            assert (len(weights), len(tokens)) == (one.along, one.across)
            assert len({*weights, *tokens}) == one.readers, "a stage is empty when so many blocks have read it"
            assert weights.index(i) == cta_rank % one.along and tokens.index(i) == cta_rank // one.along


@given(blockings())
def test_what_blocks_load_together_is_a_whole_side_in_every_step(one: Blocking) -> None:
    for length, side, sharing in (
        (one.first, one.first_multicast, one.along if one.swap else one.across),
        (one.second, one.second_multicast, one.across if one.swap else one.along),
    ):
        assert side.parts * side.turns == sharing and 1 in (side.parts, side.turns)
        assert side.shared == (sharing > 1)
        assert side.parts == 1 or length // side.parts % 8 == 0, "TMA's swizzle takes eight lines at a time"


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
    fourth = -(-one.threads // 32 * one.residents // 4)  # warps of a fourth of the SM, which has 16384 registers
    launched = 16384 // (32 * fourth) // 8 * 8
    assert one.sums + 26 <= one.registers <= 255
    if one.reallocates_registers:
        assert one.loaders == 4 and one.threads % 128 == 0
        assert one.groups * one.registers + one.loader_registers <= (one.groups + 1) * launched
        assert one.second // 2 + 26 <= launched, "the compiler must fit one instruction in before registers are lent"
    else:
        assert one.loaders == 1 and one.registers <= launched
    assert one.received_bytes + one.groups * STAGED_BYTES <= one.buffer_bytes
    assert one.octets * 8 * one.split >= one.second, "the parts are not the whole tile"


@given(blockings().filter(lambda one: one.first in (64, 128, 192, 256)))
def test_each_group_stages_in_rows_that_it_alone_has_read(one: Blocking) -> None:
    """Of the first side of one stage: its swizzled rows of 128 bytes, of which each group multiplies 64 at a time."""
    rows_of = [
        set(range(group * STAGED_BYTES // 128, (group + 1) * STAGED_BYTES // 128)) for group in range(one.groups)
    ]
    for group, staged in enumerate(rows_of):
        read = {r + (repeat * one.groups + group) * 64 for repeat in range(one.repeats) for r in range(64)}
        assert staged <= read and max(read) * 128 < one.first_stage_bytes


def test_sums_that_need_more_registers_than_an_equal_share_take_those_of_the_warps_that_load() -> None:
    lent = {m: Blocking(tokens=m, rows=256, depth=64, swap=True).reallocates_registers for m in (128, 136, 144, 200)}
    assert lent == {128: False, 136: False, 144: True, 200: True}
    assert Blocking(tokens=200, rows=256, depth=64, swap=True).threads == 384


def test_each_of_two_teams_has_whole_tiles() -> None:
    one = Blocking(tokens=168, rows=128, depth=64, swap=True, pingpong=True)
    assert (one.sums, one.groups, one.repeats, one.warps, one.team_warps) == (168, 1, 2, 8, 4)
    assert [one.group(number) for number in range(2)] == [(0, 0), (0, 1)]
    assert one.registers >= one.sums + 26 and one.registers * 256 + one.loader_registers * 128 <= 65536


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(blockings().filter(lambda one: one.refusal() is None))
def test_every_eight_of_a_tile_has_one_block_that_adds_it_up(one: Blocking) -> None:
    bounds = [one.first_octet(k_slice) for k_slice in range(one.split + 1)]
    assert bounds[0] == 0 and bounds[-1] * 8 == one.second and bounds == sorted(bounds)
    assert max(end - begin for begin, end in itertools.pairwise(bounds)) == one.octets
    assert one.octets * one.repeats == one.slots and one.slots * 4 * one.split >= one.sums


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
        ({"along": 4, "across": 4}, "take 16 blocks to a cluster"),
        ({"across": 3}, "powers of two"),
        ({"residents": 5}, "use 1 to 4"),
        ({"pingpong": True, "split": 2}, "use such a tile with a split of 1, or leave pingpong out"),
        ({"pingpong": True, "rows": 256}, "pingpong is for tiles of up to 192 n"),
        ({"pingpong": True, "rows": 192, "tokens": 144}, "takes 216 registers"),
        ({"tokens": 128, "rows": 256, "depth": 256}, "does not fit in the shared memory"),
        ({"tokens": 256, "rows": 256, "depth": 64}, "use a smaller one"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_would_work(changed: dict[str, int], said: str) -> None:
    given: dict[str, Any] = {"tokens": 16, "rows": 64, "depth": 64, "swap": True, **changed}
    reason = Blocking(**given).refusal()
    assert reason and said in reason
