"""How threads share the heads of a token, followed lane by lane: every element once, and each with its own partner."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.own.attention.heads import VECTOR, Heads

SIZES = st.integers(1, 16).flatmap(
    lambda size: st.tuples(st.just(16 * size), st.integers(1, size).map(lambda r: 16 * r))
)


@given(SIZES, st.integers(1, 9), st.integers(1, 3), st.sampled_from([64, 128, 256]), st.integers(1, 4))
def test_every_element_of_every_token_is_taken_once(
    size: tuple[int, int], queries: int, keys: int, threads: int, tokens: int
) -> None:
    heads = Heads(queries, keys, *size, threads)
    taken: Counter[tuple[int, int, int]] = Counter()
    for block in range(tokens * heads.parts):
        for thread in range(threads):
            index = heads.index(block, thread)
            if index < heads.total:
                lane, head = heads.lane(index), heads.head(index)
                for start in (heads.first(lane), heads.second(lane)):
                    assert start % VECTOR == 0, "each vector is aligned"
                    taken.update((heads.token(block), head, start + i) for i in range(VECTOR))
    assert taken == Counter((t, h, i) for t in range(tokens) for h in range(queries + 2 * keys) for i in range(size[0]))


@given(SIZES)
def test_a_lane_that_rotates_has_both_of_a_pair(size: tuple[int, int]) -> None:
    heads = Heads(1, 1, *size, 128)
    for lane in range(heads.lanes):
        assert (heads.beyond(lane) == 0) == (lane < heads.rotating_lanes)
        if lane < heads.rotating_lanes:
            assert heads.first(lane) == lane * VECTOR, "and its angles are where it looks for them"
            assert heads.second(lane) - heads.first(lane) == heads.rotated // 2
        else:
            assert heads.first(lane) >= heads.rotated


@given(st.sampled_from([16, 32, 64, 128, 256, 512]), st.sampled_from([64, 128, 256, 512]))
def test_lanes_that_exchange_sums_are_of_one_warp(size: int, threads: int) -> None:
    heads = Heads(5, 2, size, size, threads)
    for block in range(heads.parts):
        for thread in range(0, threads, heads.lanes):
            index = heads.index(block, thread)
            assert heads.lane(index) == 0 and thread // 32 == (thread + heads.lanes - 1) // 32
