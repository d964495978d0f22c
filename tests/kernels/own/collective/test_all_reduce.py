"""``all_reduce``: every element summed once, signals of their own, what it refuses, and its machine code."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast import loader
from precast.kernels import declaration_of
from precast.kernels.authoring.schema import keys_of
from precast.kernels.own.collective.all_reduce import all_reduce, exchange_of, problems
from precast.kernels.own.collective.exchange import SIGNAL_BYTES, WORLDS, Exchange
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from precast.measure.checks.check import sizes
from precast.measure.checks.together import owned_by_each, together
from precast.measure.checks.verify import verify
from tests.helpers.builds import kept_store, precast
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
        exchange.signal(block, sender) for block in range(exchange.max_blocks) for sender in range(exchange.world)
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


@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_rounded_sum_is_verified_on_every_rank_and_a_rank_left_out_is_found(dtype: str, shots: int) -> None:
    declaration, config = declaration_of(all_reduce), full(dtype=dtype, world=4, shots=shots)
    assert declaration.inputs and declaration.reference
    names = {"x", "out", "signals", "inputs", "outs", "rank"}

    def ranks(left_out: int | None) -> Any:
        def launch(**call: Any) -> None:
            assert set(call) == names and (call["outs"] is None) == (shots == 1)
            call["out"].copy_(sums[call["out"].numel()][left_out is not None and call["rank"] == left_out])

        return launch

    sums: dict[int, tuple[Any, Any]] = {}
    for problem in problems(config):
        _, flat = together(ranks(None), declaration, config)
        assert flat.inputs and flat.reference
        seed = zlib.crc32(sizes(problem).encode())
        values = owned_by_each(flat.inputs(config, problem, device="cpu", seed=seed), 4)
        every = [own["x"].float() for own in values]
        sums[problem["n"]] = sum(every[1:], every[0]), sum(every[2:], every[0])

    def faults(left_out: int | None) -> list[str]:
        one = replace(declaration, special_values=())
        found = verify(Named(ranks(left_out)), one, config, device="cpu")
        return [str(check) for check in found if not check.passed]

    assert not faults(None)
    wrong = faults(2)
    assert wrong and all(text.startswith("out of rank 2 at n=") for text in wrong)


class Named:
    """A function of named arguments in a kernel's place."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __call__(self, **values: Any) -> None:
        self.function(**values)

    def bind(self, values: dict[str, Any]) -> Callable[[], None]:
        return lambda: self.function(**values)


@pytest.mark.slow
def test_ranks_are_emulated_together(tmp_path: Path) -> None:
    """Two ranks, one shot and two; a kernel that leaves signals raised, or adds otherwise, is found."""
    manifest = "version: 1\nname: sums\ntargets: [sm_90a]\nkernels:\n"
    manifest += "  - {kernel: all_reduce, config: {dtype: bfloat16, world: 2, shots: [1, 2]}}\n"
    (tmp_path / "sums.yaml").write_text(manifest)
    cache, store = tmp_path / "cache", kept_store()
    done = precast(store, "build", tmp_path / "sums.yaml", "-o", cache, "-j", 1, "--keep", "ptx")
    assert done.returncode == 0, done.stderr
    done = precast(store, "verify", cache, "--emulate", "--json", "--seeds", 3)
    report = json.loads(done.stdout)
    assert report["smallest"] is None and not report["refused"] and not report["left_out"], report
    entries = report["evidence"]["all_reduce"].values()
    assert [entry["problems"] for entry in entries] == [len(problems({}))] * 2
    done = subprocess.run([sys.executable, "-c", CHANGED, cache, store], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


CHANGED = """
import sys
from pathlib import Path

from precast.measure.checks.verify import verify
from precast.kernels.own.collective.all_reduce import all_reduce
from precast.kernels import declaration_of
from tests.helpers.kernels.emulated_kernel import emulated_kernel

cache, store = map(Path, sys.argv[1:])
def faults(shots, right, wrong):
    def change(text):
        assert right in text
        return text.replace(right, wrong)

    one = emulated_kernel(cache, store, "all_reduce", lambda a: a.config["shots"] == shots, change=change)
    checks = verify(one, declaration_of(all_reduce), one.config, device="cpu", problem={"n": 4099}, schedules=[])
    return [check.fault for check in checks if not check.passed]


for shots in (1, 2):
    raised = faults(shots, "], 1, 0;", "], 1, 1;")
    assert len(raised) == 1 and "wait for what does not come" in raised[0], (shots, raised)
    subtracted = faults(shots, "add.bf16x2 ", "sub.bf16x2 ")  # with two ranks, the compiler rounds as it adds
    assert subtracted and "values differ" in subtracted[0], (shots, subtracted)
"""


@pytest.mark.slow
def test_it_compiles_for_each_target(tmp_path: Path, build: Callable[..., Path]) -> None:
    cases = [("sm_80", 8, 2), ("sm_90a", 2, 1), ("sm_90a", 2, 2), ("sm_100a", 8, 1)]
    entries = [
        {"kernel": "all_reduce", "config": {"dtype": "bfloat16", "world": world, "shots": shots}, "targets": [target]}
        for target, world, shots in cases
    ]
    cache = build({"name": "sums", "targets": ["sm_80", "sm_90a", "sm_100a"], "kernels": entries})
    for target, world, shots in cases:
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
