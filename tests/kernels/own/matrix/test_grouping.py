"""How products of experts are divided: every tile that has rows is taken once, and results stand where they belong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels import declaration_of
from precast.kernels.own.matrix.grouped_gemm import grouped_gemm_contiguous, grouped_gemm_masked
from precast.kernels.own.matrix.grouping import PITCH, Grouping, expert_of, table_size
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target

ROWS = st.lists(st.integers(0, 700), min_size=1, max_size=70)
LARGEST = 2**31 - 1
SM90 = Target.parse("sm_90a")


@st.composite
def groupings(draw: st.DrawFn) -> Grouping:
    along, across = draw(st.sampled_from([(1, 1), (1, 2), (1, 4), (2, 1), (4, 1)]))
    return Grouping(
        tokens=draw(st.sampled_from([8, 16, 32, 48, 64, 96, 128, 256])),
        rows=draw(st.sampled_from([64, 128, 256])),
        width=draw(st.sampled_from([1, 2])),
        scaled=draw(st.booleans()),
        gated=draw(st.booleans()),
        along=along,
        across=across,
    )


@given(groupings(), ROWS, st.integers(1, 2000))
def test_every_tile_with_rows_is_taken_once(one: Grouping, counts: list[int], n: int) -> None:
    """As a block finds its tiles, by the table of the tiles of each expert and of all before it."""
    size, clusters = table_size(len(counts)), one.row_clusters(n)
    assert size > len(counts) and size & (size - 1) == 0
    tiles = [one.token_clusters(count) for count in counts]
    table = [sum(tiles[: expert + 1]) for expert in range(len(counts))]
    table += [LARGEST] * (size - len(counts))
    found = []
    for number in range(sum(tiles) * clusters):
        expert = expert_of(table, size, number // clusters)
        before = table[expert - 1] if expert else 0
        places = one.position(number - before * clusters, table[expert] - before, clusters)
        found += [(expert, *one.tile(*places, cta_rank)) for cta_rank in range(one.cluster)]
        sides = [{place[side] for place in found[-one.cluster :]} for side in (1, 2)]
        assert [len(side) for side in sides] == [one.along, one.across], "the other side is loaded together"
    assert len(found) == len(set(found))
    wanted = {
        (expert, token, row)
        for expert, count in enumerate(counts)
        for token in range(-(-count // one.tokens))
        for row in range(-(-n // one.columns))
    }
    assert set(found) >= wanted and len(found) == sum(tiles) * clusters * one.cluster
    assert (clusters - 1) * one.columns * one.across < n <= clusters * one.columns * one.across


@given(groupings())
def test_what_is_accepted_fits_on_an_sm(one: Grouping) -> None:
    if one.refusal():
        return
    stage = (one.rows + one.tokens) * 128 + one.scale_bytes
    assert 1024 + 2 * 8 * one.stages + 4096 + 1024 + one.staged_bytes + one.stages * stage <= 227 << 10
    assert one.stages >= 3 and one.depth * one.width == 128
    assert one.rows == 64 * one.groups * one.repeats and one.tokens % one.staged == 0
    assert one.sums * one.groups * 128 == one.tokens * one.rows * (2 if one.scaled else 1)
    assert one.sums + 40 <= one.registers and one.registers * one.threads <= 65536
    assert one.loaded_bytes == (one.rows + one.tokens) * 128
    assert one.scale_bytes == (4 * one.tokens if one.scaled else 0)
    assert one.tokens // one.across % 8 == one.columns // one.along % 8 == 0, "TMA writes eight rows of a swizzle"
    assert not one.scaled or one.columns <= 128


def test_results_are_turned_into_their_places() -> None:
    """wgmma leaves rows of weights along lanes; a transposing store of four matrices leaves them along memory."""
    one = Grouping(tokens=64, rows=128, width=2)
    staged: dict[int, tuple[int, int]] = {}
    addresses = [token * PITCH + row for token, row in map(one.matrix_address, range(128))]
    for warp in range(4):
        for lane in range(32):
            for matrix in range(4):
                for element in range(2):
                    # What the lane holds: a column of 8 tokens, and a row of 16; then where the store puts it.
                    token = matrix // 2 * 8 + lane % 4 * 2 + element
                    row = warp * 16 + lane // 4 + matrix % 2 * 8
                    giver = warp * 32 + matrix * 8 + lane % 4 * 2 + element
                    place = addresses[giver] + lane // 4
                    assert place not in staged
                    staged[place] = (token, row)
    assert staged == {token * PITCH + row: (token, row) for token in range(16) for row in range(64)}
    assert all(address % 8 == 0 for address in addresses), "16 bytes"
    for first in range(0, 128, 8):
        banks = {address * 2 // 4 % 32 for address in addresses[first : first + 8]}
        assert len(banks) == 8 and len({bank // 4 for bank in banks}) == 8, "eight rows in different banks"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tokens": 24}, "tile has m 24: use a multiple of 16"),
        ({"tokens": 272}, "up to 256"),
        ({"rows": 96}, "tile has n 96: use one of 64, 128, 256"),
        ({"gated": True}, "with activation use 256"),
        ({"scaled": True, "rows": 256}, "have more than one scale: use 64 or 128"),
        ({"across": 3}, "use 1, 2 or 4 of one"),
        ({"across": 2, "along": 2}, "and 1 of the other"),
        ({"tokens": 48, "across": 4}, "use a multiple of 32"),
        ({"tokens": 256, "rows": 256}, "more registers or shared memory"),
        ({"tokens": 256, "scaled": True}, "more registers or shared memory"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_would_work(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"tokens": 64, "rows": 128, "width": 2, **changed}
    reason = Grouping(**given).refusal()
    assert reason and said in reason


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dtype": "float32"}, "dtype is float32: use one of"),
        ({"out_dtype": "float32"}, "out_dtype is float32: use one of"),
        ({"experts": 1024}, "use 1 to 1023"),
        ({"tile": (64,)}, "write its (m, n)"),
        ({"cluster": (2,)}, "write its (m, n)"),
        ({"tile": (64, 96)}, "tile has n 96"),
    ],
)
def test_configs_that_cannot_be_built(changed: dict[str, Any], said: str) -> None:
    for function in (grouped_gemm_masked, grouped_gemm_contiguous):
        declared = declaration_of(function)
        config = complete(declared.keys, {"dtype": "bfloat16", "experts": 8, **changed}, op=declared.op)
        reason = declared.refusal(config, SM90)
        assert reason and said in reason
        assert declared.refusal({**config, "dtype": "bfloat16"}, Target.parse("sm_100a")) is not None
