"""Trials on the CPU: Python functions stand for kernels, and the timer is a stand-in that launches once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from precast.kernels.authoring.declare import Declaration, Tolerance  # noqa: E402
from precast.measure.child.on_gpu.trials import SLACK, Trials, Wrong  # noqa: E402
from precast.measure.launching.cases import Case  # noqa: E402
from precast.measure.timing import timer as clock  # noqa: E402
from tests.helpers.caches import artifact, blob_of  # noqa: E402

MADE: list[tuple[int, int]] = []
Launch = Callable[..., None]


def inputs(config: Any, problem: Any, *, device: Any, seed: int) -> dict[str, Any]:
    MADE.append((config["threads"], problem["n"]))
    x = torch.arange(problem["n"], dtype=torch.float32, device=device)
    return {"x": x, "y": torch.zeros_like(x), "threads": config["threads"]}


def declared(**more: Any) -> Declaration:
    facts: dict[str, Any] = {
        "inputs": inputs,
        "outputs": ("y",),
        "reference": lambda config, values: {"y": 2 * values["x"]},
        "tolerance": lambda config: Tolerance(rtol=0.0, atol=0.1),
    }
    return Declaration(op="scale", keys=(), **{**facts, **more})


def case(launch: Launch, threads: int = 128, declaration: Declaration | None = None) -> Case:
    made = artifact(blob_of(b"x")[0], {"dtype": "float32", "threads": threads})
    return Case("scale", made, declaration or declared(), launch)  # type: ignore[arg-type]


def double(x: Any, y: Any, threads: int) -> None:
    y.copy_(2 * x)


@pytest.fixture(autouse=True)
def timer(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    asked: list[int] = []

    def cold(runs: Sequence[Callable[[], Any]], device: Any, *, launches: int) -> list[list[float]]:
        asked.append(launches)
        for run in runs:
            run()
        return [[3.0, 1.0, 2.0] for _ in runs]

    monkeypatch.setattr(clock, "cold", cold)
    monkeypatch.setattr(clock, "once", lambda run, device: (run(), 30.0)[1])
    MADE.clear()
    return asked


def time(trials: Trials, one: Case, n: int = 4, *, check: bool = True, launches: int = 3) -> float:
    return trials.time(one, "group", {"n": n}, launches=launches, check=check)


def test_the_inputs_of_a_problem_are_made_once(timer: list[int]) -> None:
    trials = Trials("cpu")
    assert [time(trials, case(double, threads)) for threads in (128, 64, 32)] == [2.0] * 3
    assert time(trials, case(double, 128), launches=15, check=False) == 2.0
    assert MADE == [(128, 4)] and timer == [3, 3, 3, 15]
    time(trials, case(double, 64), n=8)
    time(trials, case(double, 64))
    assert MADE == [(128, 4), (64, 8), (64, 4)]
    trials.time(case(double, 64), "another", {"n": 4}, launches=3, check=False)
    assert MADE[3:] == [(64, 4)]


def test_a_launch_that_takes_enough_is_not_repeated(timer: list[int]) -> None:
    trials = Trials("cpu")
    enough = [0.0, 40.0, 30.0, 29.0]
    found = [trials.time(case(double), "g", {"n": 4}, launches=3, check=True, enough=one) for one in enough]
    assert found == [2.0, 2.0, 2.0, 30.0] and timer == [3, 3, 3]


def test_a_candidate_with_a_workspace_has_its_own() -> None:
    trials, declaration = Trials("cpu"), declared(workspace=("y",))
    for threads in (128, 64):
        time(trials, case(double, threads, declaration))
    assert MADE == [(128, 4), (64, 4)]


def test_a_candidate_that_refuses_the_inputs_of_another_gets_its_own() -> None:
    def particular(x: Any, y: Any, threads: int) -> None:
        if threads != 64:
            raise ValueError("made for others")
        double(x, y, threads)

    trials = Trials("cpu")
    time(trials, case(double, 128))
    assert time(trials, case(particular, 64)) == 2.0
    assert MADE == [(128, 4), (64, 4)]
    with pytest.raises(ValueError, match="made for others"):
        time(trials, case(particular, 32))


def test_what_writes_wrong_values_is_told() -> None:
    def off(by: float) -> Launch:
        return lambda x, y, threads: y.copy_(2 * x + by)

    trials = Trials("cpu")
    assert time(trials, case(off(0.1 * SLACK * 0.9))) == 2.0
    with pytest.raises(Wrong, match=r"y differs from the reference: 1\.1 times the tolerance; 4 of 4 values"):
        time(trials, case(off(0.1 * SLACK * 1.1)))
    with pytest.raises(Wrong, match="4 left unwritten or NaN"):
        time(trials, case(lambda x, y, threads: None))
    assert time(trials, case(off(5.0)), check=False) == 2.0


def test_what_is_in_place_begins_with_the_same_values_for_each() -> None:
    def twice(x: Any, y: Any, threads: int) -> None:
        x.mul_(2)

    declaration = declared(outputs=("x",), in_place=("x",), reference=lambda config, values: {"x": 2 * values["x"]})
    trials = Trials("cpu")
    for threads in (128, 64):  # each launches twice: once to be checked, once in the stand-in for the timer
        assert time(trials, case(twice, threads, declaration)) == 2.0


def test_without_a_reference_the_first_candidate_is_the_measure() -> None:
    declaration = declared(reference=None)
    trials = Trials("cpu")
    assert time(trials, case(lambda x, y, threads: y.copy_(x), 128, declaration)) == 2.0
    with pytest.raises(Wrong, match=r"y differs from scale.dtype=float32, threads=128. for sm_90a"):
        time(trials, case(double, 64, declaration))


def test_where_memory_is_short_for_the_reference_the_first_candidate_is_the_measure() -> None:
    def short(config: Any, values: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("no")

    trials, declaration = Trials("cpu"), declared(reference=short)
    assert time(trials, case(double, 128, declaration)) == time(trials, case(double, 64, declaration)) == 2.0


def test_clocks_are_not_known_before_a_launch() -> None:
    assert Trials("cpu").clocks() == {}
