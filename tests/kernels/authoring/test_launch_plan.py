"""Launch plans: evaluated within every device's limits, packed into host programs, and checked against a signature."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from precast.kernels.authoring.launch_plan import LaunchPlan
from precast.loader.contract.format.program.host_program import HostProgram, Launch, Word
from precast.loader.contract.format.signature import Argument, Signature, Symbol
from precast.loader.errors import FormatError, LaunchError

SIGNATURE = Signature(
    arguments=(
        Argument(name="x", kind="tensor", dtype="float32", shape=("n", 4), strides=("s", 1)),
        Argument(name="count", kind="scalar", dtype="int32"),
        Argument(name="factor", kind="scalar", dtype="float32"),
        Argument(name="stream", kind="env_stream"),
    ),
    symbols={"n": Symbol(dtype="int32"), "s": Symbol(dtype="int64")},
)
PLAN = LaunchPlan(
    grid=(("max", ("ceil_div", "x.shape[0]", 8), 1), ("mul", "count", 2), 1),
    block=(128, 1, 1),
    shared=("mul", 1024, "count"),
    parameters=("x", "count", "factor"),
)
SIZES = {"x.shape[0]": 20, "count": 3}


def test_the_launch_follows_the_sizes() -> None:
    assert PLAN.launch(SIZES) == Launch((3, 6, 1), (128, 1, 1), (1, 1, 1), 3072)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": (0, 1, 1)}, "the grid would be"),
        ({"grid": (1, 65536, 1)}, "the grid would be"),
        ({"block": (1025, 1, 1)}, "the block would be"),
        ({"cluster": (17, 1, 1)}, "the cluster would be"),
        ({"shared": 232449}, "232449 bytes of shared memory"),
        ({"shared": ("sub", 0, 1)}, "-1 bytes of shared memory"),
        ({"shared": ("floor_div", 1, ("sub", "count", 3))}, "divides by zero"),
    ],
)
def test_a_launch_beyond_the_limits_of_every_device_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=f"{message}.*give other sizes"):
        replace(PLAN, **change).launch(SIZES)


def test_a_plan_is_read_back() -> None:
    assert LaunchPlan.parse(json.loads(json.dumps(PLAN.to_json()))) == PLAN


@pytest.mark.parametrize("wrong", [True, 1.0, "x.shape[0", ["pow", 2, 3], ["add", 1], 2**63, None, [[], 1, 1]])
def test_an_expression_that_is_not_valid_is_refused(wrong: Any) -> None:
    for part in ({"shared": wrong}, {"grid": [1, 1, wrong]}):
        with pytest.raises(FormatError, match="expected a number, a leaf such as"):
            LaunchPlan.parse({**PLAN.to_json(), **part})


def test_a_plan_becomes_a_program_of_one_step() -> None:
    (step,) = PLAN.program(SIGNATURE, "k").steps
    assert (step.kernel, step.grid, step.when, step.overlap) == ("k", PLAN.grid, 1, False)
    assert [p.size for p in step.parameters] == [24, 4, 4]
    assert step.parameters[0].words == (Word(0, 8, "x.data"), Word(8, 4, "x.shape[0]"), Word(16, 8, "x.strides[0]"))
    assert [p.words[0].value for p in step.parameters[1:]] == ["count", "factor.bits"]
    program = PLAN.program(SIGNATURE, "k")
    assert HostProgram.parse(json.loads(json.dumps(program.to_json()))) == program


@pytest.mark.parametrize(
    ("position", "change", "message"),
    [
        (0, {"strides": None}, "the packing is unknown without strides in 'signature.x'"),
        (0, {"shape": ("m", 4)}, "a symbol that the signature does not define"),
        (2, {"dtype": "bfloat16"}, "the packing of bfloat16 is unknown in 'signature.factor'"),
    ],
)
def test_an_argument_of_unknown_packing_is_refused(position: int, change: dict[str, Any], message: str) -> None:
    arguments = list(SIGNATURE.arguments)
    arguments[position] = replace(arguments[position], **change)
    with pytest.raises(FormatError, match=message):
        PLAN.program(replace(SIGNATURE, arguments=tuple(arguments)), "k")


def test_a_size_of_unknown_type_is_refused() -> None:
    symbols = {**SIGNATURE.symbols, "n": Symbol(dtype="float32")}
    with pytest.raises(FormatError, match="the packing of sizes of type 'float32' is unknown"):
        PLAN.program(replace(SIGNATURE, symbols=symbols), "k")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shared": "x.shape[2]"}, r"'x\.shape\[2\]' is not in"),
        ({"shared": "factor"}, "'factor' is not in"),
        ({"shared": "factor.bits"}, "'factor.bits' must not decide a launch"),
        ({"parameters": ("x", "stream")}, "'stream' is not a tensor or scalar of"),
        ({"parameters": ("z",)}, "'z' is not a tensor or scalar of"),
    ],
)
def test_a_plan_names_only_what_its_kernel_takes(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        replace(PLAN, **change).program(SIGNATURE, "k")
