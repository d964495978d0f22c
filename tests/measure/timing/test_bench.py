"""Benching one problem, with a clock that needs no GPU: what is timed, and what fails beside the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from precast.kernels.authoring.declare import Cost, Declaration
from precast.kernels.authoring.errors import DeclarationError
from precast.measure.timing import timer
from precast.measure.timing.bench import EXTRAS, USUAL, Timing, bench, benched


def inputs(config: Any, problem: Mapping[str, int], *, device: Any, seed: int) -> dict[str, Any]:
    return {"x": torch.ones(problem["n"]), "out": torch.zeros(problem["n"])}


def peer(config: Any, values: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    def missing() -> Any:
        raise RuntimeError("not on this GPU\nand more lines")

    return {"torch.mul": lambda: torch.mul(values["x"], 2), "theirs": missing}


DECLARATION = Declaration(
    op="scale",
    keys=(),
    problems=lambda config: [{"n": 0}, {"n": 4, "padding": 0}, {"n": 9, "padding": 3}],
    inputs=inputs,
    outputs=("out",),
    cost=lambda config, problem: Cost(flops=problem["n"], bytes=8 * problem["n"]),
    peer=peer,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Times in the order of the runs, each of which is called; the calls that a host's time is taken of."""
    seen: list[int] = []

    def cold(runs: Sequence[Callable[[], Any]], device: Any, *, launches: int) -> list[list[float]]:
        for run in runs:
            run()
        return [[10.0 * (n + 1), 10.0 * (n + 1) + 4, 10.0 * (n + 1) + 1, 10.0 * (n + 1) + 2] for n in range(len(runs))]

    def host(run: Callable[[], Any], device: Any, *, calls: int) -> float:
        run()
        seen.append(calls)
        return 3.5

    monkeypatch.setattr(timer, "cold", cold)
    monkeypatch.setattr(timer, "host", host)
    monkeypatch.setattr(timer, "warm", lambda run, device, *, launches: [7.0, 8.0, 9.0])
    return seen


def launch(x: Any, out: Any) -> None:
    torch.mul(x, 2, out=out)


def test_all_is_timed_on_the_same_inputs(clock: list[int]) -> None:
    def compiled() -> Callable[..., Any]:
        return launch

    extras = [one for one in EXTRAS if one != "torch_compile"]
    (found,) = bench(launch, DECLARATION, {}, problems=[{"n": 4}], device="cpu", extras=extras, just_in_time=compiled)
    assert found == Timing(
        problem={"n": 4},
        microseconds=11.5,
        spread=0.5,
        bytes=32,
        flops=4,
        written=16,
        warm=8.0,
        host=3.5,
        just_in_time=3.5,
        peers={"torch.mul": 21.5},
        notes=("no time of theirs: RuntimeError: not on this GPU",),
    )


def test_the_peers_of_torch_are_compiled_when_that_is_asked_for(
    clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the compiler notes what it is given: the real one takes seconds, and a C++ compiler."""
    given: list[Callable[[], Any]] = []
    log: list[str] = []

    def compiled(run: Callable[[], Any], *, dynamic: bool) -> Callable[[], Any]:
        given.append(run)
        log.append("any size" if dynamic else "this size")
        return run

    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr(torch.compiler, "reset", lambda: log.append("forgotten"))
    extras = [*USUAL, "torch_compile"]
    (found,) = bench(launch, DECLARATION, {}, problems=[{"n": 4}], device="cpu", extras=extras)
    assert found.peers == {"torch.mul": 21.5, "torch.compile(torch.mul)": 31.5} and len(given) == 1
    assert log == ["forgotten", "this size"], "what was compiled for other sizes counts against a limit"
    (found,) = bench(launch, DECLARATION, {}, problems=[{"n": 4}], device="cpu", extras=USUAL)
    assert list(found.peers) == ["torch.mul"] and len(given) == 1


def test_only_what_is_asked_for_is_timed(clock: list[int]) -> None:
    (found,) = bench(launch, DECLARATION, {}, problems=[{"n": 4}], device="cpu")
    assert (found.warm, found.host, found.just_in_time, found.peers, clock) == (0.0, 0.0, 0.0, {}, [])


def test_what_cannot_be_compiled_here_costs_itself_alone(clock: list[int]) -> None:
    def compiled() -> Callable[..., Any]:
        raise ModuleNotFoundError("No module named 'cutlass'")

    extras = [one for one in EXTRAS if one != "torch_compile"]
    (found,) = bench(launch, DECLARATION, {}, problems=[{"n": 4}], device="cpu", extras=extras, just_in_time=compiled)
    assert found.just_in_time == 0.0 and found.host == 3.5
    assert "not compiled just in time: ModuleNotFoundError: No module named 'cutlass'" in found.notes


def test_a_peer_that_cannot_be_made_is_told(clock: list[int]) -> None:
    def broken(config: Any, values: Any) -> dict[str, Callable[[], Any]]:
        raise KeyError("weight")

    (found,) = bench(launch, replace(DECLARATION, peer=broken), {}, problems=[{"n": 4}], device="cpu", extras=["peer"])
    assert found.notes == ("no peer: KeyError: 'weight'",) and found.microseconds == 11.5


def test_problems_without_work_are_not_timed() -> None:
    assert benched(DECLARATION, {}) == [{"n": 4, "padding": 0}, {"n": 9, "padding": 3}]
    with pytest.raises(DeclarationError, match="give its @kernel problems"):
        benched(Declaration(op="scale", keys=()), {})
    with pytest.raises(DeclarationError, match="give its @kernel inputs"):
        next(bench(launch, Declaration(op="scale", keys=()), {}, problems=[{"n": 4}]))
