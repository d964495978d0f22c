"""Kernels made wrong on purpose, as functions on the CPU: each is caught, where it is wrong; a right one never is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from precast.kernels.authoring.declare import Declaration, Problem, Tolerance
from precast.loader.contract.format.config import Config
from precast.measure.checks.check import Check, outcome, smallest
from precast.measure.checks.verify import verify

HUGE = 1 << 12  # stands for 2**31


def problems(config: Config) -> list[Problem]:
    shapes = [(0, 8, 0), (1, 1, 0), (3, 5, 0), (4, 8, 3), (2, 64, 0)]
    return [{"rows": rows, "columns": columns, "padding": padding} for rows, columns, padding in shapes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    rows, columns, padding = problem["rows"], problem["columns"], problem["padding"]
    draw = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, columns + padding), generator=draw, device=device)[:, :columns]
    out = torch.empty((rows, columns + padding), device=device)[:, :columns]
    return {"x": x, "out": out, "count": torch.zeros(1, dtype=torch.int32, device=device), "factor": 2.0}


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"out": inputs["x"].double() * inputs["factor"]}


DECLARATION = Declaration(
    op="test.scale",
    keys=(),
    problems=problems,
    large=lambda config: {"rows": 65, "columns": 64, "padding": 0},
    inputs=inputs,
    outputs=("out",),
    workspace=("count",),
    reference=reference,
    tolerance=lambda config: Tolerance(rtol=1e-5, atol=1e-40),
)


def right(x: Any, out: Any, count: Any, factor: float) -> None:
    torch.mul(x, factor, out=out)


def behind(tensor: Any, distance: int) -> Any:
    """The element so far from the last of a tensor, or, below zero, from the first."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    place = last + distance if distance > 0 else distance
    return tensor.as_strided((1,), (1,), tensor.storage_offset() + place)


def off_by_one_at_a_tail(x: Any, out: Any, count: Any, factor: float) -> None:
    right(x, out, count, factor)
    if x.numel() % 4:
        out[-1, -1] = x[-1, -2] if x.shape[1] > 1 else 0.0


_LAUNCHES = itertools.count()


def a_race(x: Any, out: Any, count: Any, factor: float) -> None:
    """Within the tolerance each time, and never as in one of the three launches before."""
    right(x, out, count, factor)
    out.mul_(1 + 1e-6 * (1 + next(_LAUNCHES) % 4))


def a_write_behind(x: Any, out: Any, count: Any, factor: float) -> None:
    right(x, out, count, factor)
    if out.numel():
        behind(out, 3).fill_(1.0)


def a_write_before(x: Any, out: Any, count: Any, factor: float) -> None:
    right(x, out, count, factor)
    behind(out, -1).fill_(1.0)


def a_write_between_rows(x: Any, out: Any, count: Any, factor: float) -> None:
    right(x, out, count, factor)
    if out.numel() and not out.is_contiguous():
        out.as_strided((1,), (1,), out.storage_offset() + out.shape[1]).fill_(0.0)


def a_write_behind_an_input(x: Any, out: Any, count: Any, factor: float) -> None:
    right(x, out, count, factor)
    behind(x, 1).fill_(0.0)


def one_element_never_written(x: Any, out: Any, count: Any, factor: float) -> None:
    flat = [(i, j) for i in range(out.shape[0]) for j in range(out.shape[1])]
    for i, j in flat[:-1]:
        out[i, j] = x[i, j] * factor


def an_input_changed(x: Any, out: Any, count: Any, factor: float) -> None:
    right(x, out, count, factor)
    x[:1, :1] += 1


def wrong_for_one_stride(x: Any, out: Any, count: Any, factor: float) -> None:
    out.copy_(x.as_strided(x.shape, (x.shape[1], 1), x.storage_offset()) * factor)


def nan_on_zero(x: Any, out: Any, count: Any, factor: float) -> None:
    out.copy_(x * x.sign() / x.sign() * factor)


def nan_dropped(x: Any, out: Any, count: Any, factor: float) -> None:
    out.copy_(torch.nan_to_num(x, nan=0.0, posinf=torch.inf, neginf=-torch.inf) * factor)


def infinity_clamped(x: Any, out: Any, count: Any, factor: float) -> None:
    out.copy_((x * factor).clamp(-3e38, 3e38))


def right_only_the_first_time(x: Any, out: Any, count: Any, factor: float) -> None:
    torch.mul(x, factor if count == 0 else factor / 2, out=out)
    count += 1


def added_to_what_was_there(x: Any, out: Any, count: Any, factor: float) -> None:
    out.nan_to_num_(nan=0.0).add_(x * factor)


def wrong_where_it_is_huge(x: Any, out: Any, count: Any, factor: float) -> None:
    right(x, out, count, factor)
    if out.numel() > HUGE:
        out.view(-1)[HUGE:] = 0.0


WRONG: dict[Callable[..., None], tuple[str, str, str]] = {
    off_by_one_at_a_tail: ("out", "first run", "times the tolerance"),
    a_race: ("out", "second run", "other bits than in the first run"),
    a_write_behind: ("out", "first run", "behind out, 9 from where it ends"),
    a_write_before: ("out", "first run", "4 bytes before out, 1 from where it begins"),
    a_write_between_rows: ("out", "first run", "4 bytes between the rows of out"),
    a_write_behind_an_input: ("x", "first run", "behind x, 1 from where it ends"),
    one_element_never_written: ("out", "first run", "left unwritten or NaN, the first at "),
    an_input_changed: ("x", "first run", "an input was changed: 1 of "),
    wrong_for_one_stride: ("out", "first run", "values differ"),
    nan_on_zero: ("out", "with zeros", "nan instead of 0"),
    nan_dropped: ("out", "with NaN", "0 instead of nan"),
    infinity_clamped: ("out", "with infinity", "instead of inf"),
    right_only_the_first_time: ("out", "second run", "values differ"),
    added_to_what_was_there: ("out", "second run", "values differ"),
    wrong_where_it_is_huge: ("out", "first run", "64 of 4160 values differ"),
}


def verified(launch: Callable[..., None], seed: int = 0, **changed: Any) -> list[Check]:
    return list(verify(launch, replace(DECLARATION, **changed), {}, device="cpu", seed=seed, huge=True))


@pytest.mark.parametrize("launch", WRONG, ids=lambda launch: launch.__name__)
def test_a_wrong_kernel_is_caught(launch: Callable[..., None]) -> None:
    output, scenario, words = WRONG[launch]
    checks = verified(launch)
    first = next(check for check in checks if not check.passed)
    assert (first.output, first.scenario) == (output, scenario), first
    assert words in first.fault, first
    worst = smallest(checks)
    assert worst is not None and all(worst.elements <= check.elements for check in checks if not check.passed)


@pytest.mark.parametrize("launch", WRONG, ids=lambda launch: launch.__name__)
def test_the_smallest_failing_problem_fails_alone(launch: Callable[..., None]) -> None:
    worst = smallest(verified(launch, seed=3))
    assert worst is not None
    again = list(verify(launch, DECLARATION, {}, device="cpu", seed=3, problem=worst.problem))
    assert [check for check in again if check.scenario == worst.scenario and not check.passed]


@pytest.mark.parametrize("seed", range(20))
def test_a_right_kernel_is_not_blamed(seed: int) -> None:
    checks = verified(right, seed)
    assert not [str(check) for check in checks if not check.passed]
    summary = outcome(checks)
    assert summary["problems"] == 6 and summary["left_out"] == ["on a second stream: there are no streams on the CPU"]
    assert summary["scenarios"] == [
        "first run", "second run", "third run", "with NaN", "with infinity", "with zeros", "with denormals",
    ]  # fmt: skip


def test_what_the_declaration_excuses_is_not_blamed() -> None:
    assert all(check.passed for check in verified(a_race, deterministic=False))
    assert all(check.passed for check in verified(nan_on_zero, special_values=("nan",)))


def test_a_kernel_that_takes_denormals_as_zeros_is_right() -> None:
    def flushed(x: Any, out: Any, count: Any, factor: float) -> None:
        right(torch.where(x.abs() < torch.finfo(x.dtype).tiny, 0.0, x), out, count, factor)

    assert all(check.passed for check in verified(flushed))


def test_an_input_is_given_back_before_the_next_run() -> None:
    """Else every later run would be blamed for what one kernel did to its input."""
    wrong = [check for check in verified(an_input_changed) if not check.passed]
    assert {check.output for check in wrong} == {"x"} and len({check.scenario for check in wrong}) > 3


def test_a_workspace_that_is_not_declared_is_told_what_to_do() -> None:
    wrong = [check for check in verified(right_only_the_first_time, workspace=()) if not check.passed]
    assert wrong[0].output == "count" and "name what is written in outputs" in wrong[0].fault


def test_the_huge_problem_is_left_out_with_the_reason_on_the_cpu() -> None:
    *_, last = verify(right, DECLARATION, {}, device="cpu")
    assert last.problem == {"rows": 65, "columns": 64, "padding": 0}
    assert last.passed and str(last).endswith("left out: it has too many elements for the CPU")
