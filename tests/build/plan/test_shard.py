"""A plan dealt out to machines: every variant to exactly one of them, and to no other when it is asked again."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.errors import Location
from precast.build.plan.plan import Plan
from precast.build.plan.shard import Shard, part_of
from precast.build.plan.variant import Variant
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError

TARGETS = [Target.parse(t) for t in ("sm_90a", "sm_100a", "sm_120a")]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans over a few ops and targets, of any size down to none."""
    names = draw(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.sampled_from(TARGETS)), max_size=60))
    variants = tuple(
        Variant(op=op, source="m:f", config={"n": n}, target=target, location=Location("m.yaml", 1, 1))
        for op, n, target in sorted(names)
    )
    return Plan(name="x", variants=variants, ops={})


@given(plans(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_every_variant_falls_to_exactly_one_shard(plan: Plan, count: int, order: random.Random) -> None:
    parts = [part_of(plan, Shard(i, count)) for i in range(1, count + 1)]
    assert Counter(v.identity for p in parts for v in p.variants) == Counter(v.identity for v in plan.variants)
    sizes = [len(p.variants) for p in parts]
    assert max(sizes) - min(sizes) <= 1
    shuffled = list(plan.variants)
    order.shuffle(shuffled)
    again = part_of(replace(plan, variants=tuple(shuffled)), Shard(1, count))
    assert {v.identity for v in again.variants} == {v.identity for v in parts[0].variants}


@given(plans(), st.integers(2, 5))
def test_each_op_is_spread_evenly(plan: Plan, count: int) -> None:
    """Variants of one op for one target cost alike: none of the shards gets two of them more than another."""
    parts = [part_of(plan, Shard(i, count)) for i in range(1, count + 1)]
    for group in {(v.op, v.target) for v in plan.variants}:
        counts = [sum((v.op, v.target) == group for v in p.variants) for p in parts]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b", "1/4 ", "\u0661/4"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(ConfigError, match="write I/N"):
        Shard.parse(text)
    assert str(Shard.parse("3/4")) == "3/4"
