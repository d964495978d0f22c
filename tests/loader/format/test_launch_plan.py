"""Launch plans: read back as they were, checked against their kernel, and evaluated within every device's limits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from precast.loader.errors import FormatError, LaunchError
from precast.loader.format.artifact import Artifact
from precast.loader.format.launch_plan import LaunchPlan
from precast.loader.format.program.host_program import Launch
from precast.loader.format.signature import Argument, Signature, Symbol
from tests.helpers.caches import artifact
from tests.helpers.resolutions import BLOB

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


def planned() -> Artifact:
    device = artifact(BLOB, {}, symbol="k", kind="cubin", host=None)
    return replace(device, signature=SIGNATURE, plan=PLAN)


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


def nested(depth: int) -> Any:
    """An expression of so many levels."""
    return ["add", nested(depth - 1), 1] if depth else 1


@pytest.mark.parametrize(
    "wrong",
    [
        True, 1.0, "x.shape[0", "x.y", ["pow", 2, 3], ["add", 1], 2**62, nested(9), None, ["add", "1", 2], [[], 1, 1],
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused(wrong: Any) -> None:
    assert LaunchPlan.parse({**PLAN.to_json(), "shared": nested(8)})
    for part in ({"shared": wrong}, {"grid": [1, 1, wrong]}):
        with pytest.raises(FormatError, match="expected a number, a size such as"):
            LaunchPlan.parse({**PLAN.to_json(), **part})


@pytest.mark.parametrize("grid", [[1, 1], [1, 1, 1, 1], "abc", None])
def test_what_is_no_grid_is_refused(grid: Any) -> None:
    with pytest.raises(FormatError, match="grid"):
        LaunchPlan.parse({**PLAN.to_json(), "grid": grid})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shared": "x.shape[2]"}, r"'x\.shape\[2\]' is not a size of"),
        ({"shared": "factor"}, "'factor' is not a size of"),
        ({"parameters": ("x", "stream")}, "'stream' is not a tensor or number of"),
        ({"parameters": ("z",)}, "'z' is not a tensor or number of"),
    ],
)
def test_a_plan_names_only_what_its_kernel_takes(change: dict[str, Any], message: str) -> None:
    PLAN.check(SIGNATURE)
    with pytest.raises(FormatError, match=message):
        replace(PLAN, **change).check(SIGNATURE)


def test_an_index_holds_plans_of_cubins_only() -> None:
    data = planned().to_json()
    assert Artifact.parse(data) == planned()
    with pytest.raises(FormatError, match="only a cubin has one"):
        Artifact.parse({**data, "kind": "object", "host": {"arch": "x86_64", "glibc": "2.17"}})
    with pytest.raises(FormatError, match="not a size of"):
        Artifact.parse({**data, "plan": {**data["plan"], "shared": "z.shape[0]"}})
    with pytest.raises(FormatError, match="an object needs its host"):
        Artifact.parse({**scale_json(), "host": None})


def scale_json() -> dict[str, Any]:
    return artifact(BLOB, {"dtype": "float32"}).to_json()
