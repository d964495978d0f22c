"""The least time of a launch: never more than what the declared cost takes at the measured ceilings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.measure.bench.roofline import ABOVE, standing
from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings

CEILINGS = Ceilings(bandwidth=4000.0, rates={"bfloat16": 800.0}, l2=50 << 20)


def timing(us: float, *, spread: float = 0.0, bytes: int = 0, flops: int = 0, written: int = 0) -> Timing:
    return Timing(problem={"n": 1}, microseconds=us, spread=spread, bytes=bytes, flops=flops, written=written)


def test_the_longer_of_bytes_and_operations_bounds() -> None:
    memory = standing(timing(200.0, bytes=400_000_000, flops=8_000_000), "bfloat16", CEILINGS)
    products = standing(timing(200.0, bytes=4_000_000, flops=80_000_000_000), "bfloat16", CEILINGS)
    assert memory is not None and (memory.least, memory.share, memory.bound) == (100.0, 0.5, "memory")
    assert products is not None and (products.least, products.share, products.bound) == (100.0, 0.5, "products")


def test_what_is_written_may_stay_in_the_cache() -> None:
    """A kernel of 20 MB in and 20 MB out has read 20 MB from memory when it ends."""
    small = standing(timing(6.0, bytes=40_000_000, written=20_000_000), None, CEILINGS)
    large = standing(timing(600.0, bytes=2_000_000_000, written=1_000_000_000), None, CEILINGS)
    assert small is not None and small.moved == 20_000_000 and small.note == ""
    assert large is not None and large.moved == 2_000_000_000 - (50 << 20)


def test_a_kernel_without_a_cost_stands_nowhere_and_a_dtype_without_a_rate_by_its_bytes() -> None:
    assert standing(timing(5.0), "bfloat16", CEILINGS) is None
    assert standing(timing(5.0, flops=10**9), "float4_e2m1fn", CEILINGS) is None
    by_bytes = standing(timing(5.0, bytes=10**6, flops=10**12), "float4_e2m1fn", CEILINGS)
    assert by_bytes is not None and by_bytes.bound == "memory"


def test_more_than_the_gpu_can_do_is_said_beyond_the_spread() -> None:
    within = standing(timing(99.0, spread=1.5, bytes=400_000_000), None, CEILINGS)
    beyond = standing(timing(97.0, spread=1.5, bytes=400_000_000), None, CEILINGS)
    assert within is not None and within.share > 1 and within.note == ""
    assert beyond is not None and beyond.note == ABOVE


@given(
    us=st.floats(0.1, 1e6),
    bytes=st.integers(0, 1 << 40),
    flops=st.integers(0, 1 << 50),
    written=st.integers(0, 1 << 41),
)
def test_a_share_is_of_the_measured_time(us: float, bytes: int, flops: int, written: int) -> None:
    found = standing(timing(us, bytes=bytes, flops=flops, written=written), "bfloat16", CEILINGS)
    if found is not None:
        assert found.share * us == pytest.approx(found.least)
        assert 0 <= found.moved <= bytes
        assert found.least >= flops / 800.0 / 1e6


def test_the_larger_of_two_measurements_of_the_gpu_stays() -> None:
    before = Ceilings(
        bandwidth=4100.0, copy=4000.0, rates={"bfloat16": 700.0}, l2=10, clocks={"clocks.sm": "1 GHz"}, notes=("a",)
    )
    after = Ceilings(bandwidth=4000.0, rates={"bfloat16": 720.0, "int8": 9.0}, l2=10, notes=("a", "b"))
    higher = before.higher(after)
    assert higher.copy == 4000.0
    assert (higher.bandwidth, higher.rates) == (4100.0, {"bfloat16": 720.0, "int8": 9.0})
    assert higher.notes == ("a", "b") and higher.clocks == {"clocks.sm": "1 GHz"}
    assert Ceilings.parse(higher.to_json()) == higher
