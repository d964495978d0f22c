"""Ranks that are verified together: one launch of all, what each is passed, what is found of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from precast.kernels.authoring.composition import Ranks, addresses
from precast.kernels.authoring.declare import Declaration, Problem
from precast.kernels.authoring.errors import DeclarationError
from precast.loader.contract.format.config import Config
from precast.measure.checks.check import Check
from precast.measure.checks.scenarios import Schedule
from precast.measure.checks.verify import verify
from precast.measure.timing.bench import bench

WORLD = 3


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    draw = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(problem["n"], generator=draw, device=device)
    return {"x": x, "out": torch.empty(problem["n"], device=device)}


def exchanged(config: Config, rank: int, owned: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"peer": owned[(rank + 1) % WORLD]["x"], "table": addresses(owned, "x"), "rank": rank}


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    xs = values["x"]
    return {"out": [xs[(rank + 1) % WORLD] for rank in range(WORLD)]}


DECLARATION = Declaration(
    op="test.shift",
    keys=(),
    problems=lambda config: [{"n": 0}, {"n": 5}],
    inputs=inputs,
    outputs=("out",),
    reference=reference,
    ranks=Ranks(count=lambda config: WORLD, exchanged=exchanged),
)


class Launch:
    """What launches a rank, by a function of its arguments."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __call__(self, **values: Any) -> None:
        self.function(**values)

    def bind(self, values: Mapping[str, Any]) -> Callable[[], None]:
        return lambda: self.function(**values)


def faults(function: Callable[..., None]) -> list[Check]:
    return [check for check in verify(Launch(function), DECLARATION, {}, device="cpu") if not check.passed]


def shift(x: Any, out: Any, peer: Any, table: Any, rank: int) -> None:
    assert int(table[rank]) == x.data_ptr() and int(table[(rank + 1) % WORLD]) == peer.data_ptr()
    out.copy_(peer)


def test_each_rank_has_inputs_of_its_own_and_what_the_others_have() -> None:
    assert not faults(shift)


def test_what_is_wrong_is_said_of_its_rank() -> None:
    def stays(x: Any, out: Any, peer: Any, rank: int, **rest: Any) -> None:
        out.copy_(x if rank == 1 else peer)

    found = faults(stays)
    assert {check.output for check in found} == {"out of rank 1"}, "also: no two ranks have the same inputs"


def test_a_write_into_anothers_input_is_found() -> None:
    def disturbs(x: Any, out: Any, peer: Any, rank: int, **rest: Any) -> None:
        out.copy_(peer)
        if rank == 2 and len(peer):
            peer[0] += 1

    assert "x of rank 0" in {check.output for check in faults(disturbs)}


def test_an_emulated_kernel_gets_all_calls_at_once() -> None:
    class Emulated:
        def __init__(self, schedule: Schedule | None = None) -> None:
            self.schedule = schedule

        def under(self, schedule: Schedule) -> Emulated:
            return Emulated(schedule)

        def together(self, calls: Sequence[Mapping[str, Any]], reached: Mapping[str, Any], written: Any) -> None:
            assert set(reached) == {f"{name} of rank {r}" for name in ("x", "out") for r in range(WORLD)}
            assert set(written) == {f"out of rank {r}" for r in range(WORLD)}
            assert [call["rank"] for call in calls] == list(range(WORLD))
            made.append(self.schedule)
            for call in calls:
                shift(**call)

    made: list[Schedule | None] = []
    order = Schedule(1, 200)
    found = list(verify(Emulated(), DECLARATION, {}, device="cpu", schedules=[order]))  # type: ignore[arg-type]
    assert found and all(check.passed for check in found)
    assert (1, 200) in [(each.seed, each.delay) for each in made if each] and None in made


def test_it_is_not_timed_alone() -> None:
    with pytest.raises(DeclarationError, match="waits for other ranks"):
        list(bench(shift, DECLARATION, {}, problems=[{"n": 5}], device="cpu"))
