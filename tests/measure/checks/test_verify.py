"""An output that a kernel reads before it writes it keeps what it holds; any other is poisoned before the launch."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from precast.kernels.authoring.declare import Declaration
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.format.target import Target
from precast.loader.launch.kernel import Kernel
from precast.measure.checks.verify import verify
from tests.helpers.echo import HOPPER


def checks(in_place: Sequence[str]) -> list[bool]:
    declaration = Declaration(
        op="double",
        keys=(),
        problems=lambda config: [{"n": 8}],
        inputs=lambda config, problem, *, device, seed: {"x": torch.arange(8.0, device=device)},
        outputs=("x",),
        in_place=tuple(in_place),
        reference=lambda config, inputs: {"x": inputs["x"].double() * 2},
    )

    def double(x: Any) -> None:
        x.mul_(2)

    return [check.passed for check in verify(double, declaration, {}, device="cpu") if not check.left_out]


def test_what_is_read_before_it_is_written_is_not_poisoned() -> None:
    assert set(checks(["x"])) == {True}


def test_what_is_not_said_to_be_read_is_poisoned() -> None:
    assert not any(checks([]))


def declared(**more: Any) -> Declaration:
    facts: dict[str, Any] = {
        "problems": lambda config: [{"n": 8}, {"n": 9}, {"n": 16}],
        "inputs": lambda config, problem, *, device, seed: {
            "x": torch.ones(problem["n"]),
            "y": torch.zeros(problem["n"]),
        },
        "outputs": ("y",),
        "reference": lambda config, inputs: {"y": inputs["x"].double() * 2},
    }
    return Declaration(op="double", keys=(), **{**facts, **more})


def test_a_problem_that_is_refused_costs_itself_alone() -> None:
    """It has one check, with the reason and the scenario; the problems before and after are verified whole."""

    def double(x: Any, y: Any) -> None:
        if len(x) % 8:
            raise ValueError("n must be divisible by 8")
        y.copy_(x * 2)

    found = list(verify(double, declared(), {}, device="cpu"))
    failed = [check for check in found if not check.passed]
    (text,) = map(str, failed)
    assert text.startswith("a run at n=9, first run: it raised ValueError: n must be divisible by 8 (test_verify.py:")
    assert failed[0].broke and failed[0].elements == 18
    assert {check.problem["n"] for check in found if check.passed} == {8, 16}
    assert len([check for check in found if check.problem["n"] == 9]) == 1, "no further run of it"


def test_an_authors_function_that_fails_is_a_fault_of_that_problem() -> None:
    def reference(config: Any, inputs: Any) -> dict[str, Any]:
        if len(inputs["x"]) == 9:
            raise RuntimeError("no reference for nine")
        return {"y": inputs["x"].double() * 2}

    found = list(verify(lambda x, y: y.copy_(x * 2), declared(reference=reference), {}, device="cpu"))
    (text,) = (str(check) for check in found if not check.passed)
    assert text.startswith("a run at n=9: it raised RuntimeError: no reference for nine (test_verify.py:")


def test_verify_calls_by_name_and_leaves_out_what_a_target_does_not_take() -> None:
    none = Argument(name="bias", kind="none")
    signature = Signature(
        arguments=(
            Argument(name="x", kind="tensor", dtype="float32", shape=("n",)),
            none,
            Argument(name="extra", kind="tuple", members=(none, none)),
            Argument(name="eps", kind="scalar", dtype="float32"),
            Argument(name="stream", kind="env_stream"),
        )
    )
    seen: list[Any] = []
    declaration = Declaration(
        op="op",
        keys=(),
        problems=lambda config: [{"rows": 1}],
        inputs=lambda config, problem, *, device, seed: {
            "eps": 2.0, "x": torch.zeros(1), "other": torch.zeros(1), "absent": None,
        },
        outputs=("x", "absent"),
        reference=lambda config, inputs: {"x": torch.ones(1), "absent": None},
    )  # fmt: skip
    artifact: Any = SimpleNamespace(config={}, target=Target.parse("sm_90a"), signature=signature, assumes=None)
    kernel = Kernel("op", artifact, lambda *args: seen.append(args), lambda: HOPPER)
    found = list(verify(kernel, declaration, {}, device="cpu"))
    assert {check.output for check in found if not check.left_out} == {"x"} and not found[0].passed
    x, bias, extra, eps = seen[0]
    assert x.isnan().all() and (bias, extra, eps) == (None, (None, None), 2.0)
