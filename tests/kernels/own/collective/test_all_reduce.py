"""``all_reduce``: every element summed once, signals of their own, what it refuses, and its machine code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast import loader
from precast.kernels import declaration_of
from precast.kernels.authoring.schema import keys_of
from precast.kernels.own.collective.all_reduce import all_reduce, exchange_of
from precast.kernels.own.collective.exchange import SIGNAL_BYTES, WORLDS, Exchange
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from tests.helpers.gpu.machine_code import instructions

EXCHANGES = [
    Exchange(world=world, shots=shots, vector=vector) for world in WORLDS for shots in (1, 2) for vector in (4, 8)
]


def full(**config: Any) -> dict[str, Any]:
    return complete(keys_of(all_reduce), config, op="all_reduce")


@given(st.sampled_from(EXCHANGES), st.integers(0, 5000) | st.integers(1 << 31, 1 << 33))
def test_every_vector_is_summed_by_one_rank_or_by_all(exchange: Exchange, n: int) -> None:
    """As the device code does it: from a rank's first vector on, as many as each has, up to the last whole one."""
    whole, end = n // exchange.vector, 0
    for rank in range(exchange.world):
        first = exchange.first(n, rank)
        last = min(whole, first + exchange.each(n))
        if exchange.shots == 1:
            assert (first, last) == (0, whole)
        elif first < last:
            assert first == end
            end = last
    assert exchange.shots == 1 or end == whole
    assert exchange.blocks(n) * exchange.threads >= exchange.each(n)
    assert n - whole * exchange.vector < exchange.threads, "the rest is taken by one block"


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_no_two_signals_of_a_rank_are_one(exchange: Exchange) -> None:
    places = Counter(
        exchange.signal(block, sender) for block in range(exchange.most) for sender in range(exchange.world)
    )
    assert set(places.values()) == {1} and all(place % SIGNAL_BYTES == 0 for place in places)
    assert max(places) + SIGNAL_BYTES == exchange.signal_bytes == 64 * exchange.world * 4, "as the page of the op says"


def test_a_vector_has_16_bytes() -> None:
    assert [exchange_of(full(dtype=d, world=2)).vector for d in ("bfloat16", "float16", "float32")] == [8, 8, 4]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"dtype": "int8"}, "dtype 'int8' is not supported"),
        ({"world": 3}, "world is 3: use one of 2, 4, 8"),
        ({"world": 1}, "world is 1: use one of 2, 4, 8"),
    ],
)
def test_what_cannot_be_built_is_refused(changed: dict[str, Any], reason: str) -> None:
    config = full(**{"dtype": "bfloat16", "world": 2, **changed})
    assert reason in str(declaration_of(all_reduce).refusal(config, Target.parse("sm_90a")))


def test_one_process_cannot_verify_it() -> None:
    assert not declaration_of(all_reduce).verifiable


@pytest.mark.slow
def test_it_compiles_for_each_target(tmp_path: Path, build: Callable[..., Path]) -> None:
    targets = ["sm_80", "sm_90a", "sm_100a"]
    config = {"dtype": "bfloat16", "world": [2, 8], "shots": [1, 2]}
    manifest = {
        "name": "sums",
        "targets": targets,
        "kernels": [{"kernel": "all_reduce", "config": config}],
    }
    cache = build(manifest)
    for target in targets:
        for shots in (1, 2):
            for world in (2, 8):
                one = {"dtype": "bfloat16", "world": world, "shots": shots}
                kernel = loader.get("all_reduce", one, target=target)
                passed = {a.name: a for a in kernel.signature.passed}
                assert list(passed) == ["x", "out", "inputs", "outs", "signals", "rank"]
                assert passed["outs"].always_none == (shots == 1)
                assert passed["inputs"].dtype == "int64" and passed["inputs"].shape == (world,)
                code = instructions(cache, kernel.artifact, tmp_path)
                assert sum(n for name, n in code.items() if "CAS.STRONG.SYS" in name) == 4, "ranks meet twice"
                assert sum(n for name, n in code.items() if name.startswith("LDG.E.128")) == world, "before any sum"
                for resources in kernel.artifact.resources:
                    assert (resources.stack, resources.local) == (0, 0), f"{one} spills on {target}"
