"""``softmax``, ``reduce`` and ``layernorm``: references, bounds, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.kernels.own import row_cases
from precast.loader.contract.format.target import Target
from precast.measure.checks.compare import compare
from tests.helpers.kernels.stand_in import check_verify, full

SM90 = Target.parse("sm_90a")
HALF = {"dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("op", "config"),
    [
        ("softmax", {**HALF, "width": 136}),
        ("layernorm", {**HALF, "hidden": 136}),
        ("layernorm", {"dtype": "float32", "hidden": 132, "bias": False}),
        *(("reduce", {"dtype": "float32", "width": 132, "function": f}) for f in ("sum", "mean", "max", "argmax")),
    ],
)
def test_a_right_kernel_passes_verify_and_a_wrong_one_does_not(op: str, config: dict[str, Any]) -> None:
    check_verify(op, config)


def of_op(op: str, config: dict[str, Any], rows: int = 5) -> tuple[dict[str, Any], dict[str, Any], torch.Tensor, Any]:
    """The full config, inputs, the expected output and what may differ."""
    config, declaration = full(op, config), declaration_of(load(find(op)))
    assert declaration.inputs and declaration.reference and declaration.tolerance
    inputs = declaration.inputs(config, {"rows": rows, "padding": 0}, device="cpu", seed=7)
    return config, inputs, declaration.reference(config, inputs)["out"], declaration.tolerance(config)


@pytest.mark.parametrize("width", [4096, 128256])
def test_an_online_softmax_in_float32_stays_within_its_bound(width: int) -> None:
    """In groups of values, the sum scaled whenever a larger value is met, as lanes with a long row do it."""
    config, inputs, expected, allowed = of_op("softmax", {"dtype": "float32", "width": width, "threads": 1024})
    x, lanes = inputs["x"], row_cases.split_of(config, "width").lanes
    padded = torch.full((len(x), -(-width // (lanes * 16)) * lanes * 16), float("-inf"))
    padded[:, :width] = x
    groups = padded.view(len(x), -1, lanes, 16)
    largest, total = torch.full((len(x), lanes), float("-inf")), torch.zeros(len(x), lanes)
    for i in range(groups.shape[1]):
        newer = largest.maximum(groups[:, i].amax(-1))
        base = torch.where(newer.isinf(), 0.0, newer)
        total = total * (largest - base).exp() + (groups[:, i] - base[..., None]).exp().sum(-1)
        largest = newer
    for together in (32, lanes // 32):  # the lanes of a warp, then the warps
        largest, total = (part.view(len(x), -1, together) for part in (largest, total))
        most = largest.amax(-1, keepdim=True)
        base = torch.where(most.isinf(), 0.0, most)
        largest, total = most[..., 0], (total * (largest - base).exp()).sum(-1)
    found = (x - largest).exp() * (1.0 / total)
    assert compare(found, expected, allowed).error < 0.9
    assert compare(found * 1.001, expected, allowed).error > 10


def one_by_one(x: torch.Tensor) -> torch.Tensor:
    """Sums along the last axis, one float32 after the other: torch's own are more exact."""
    total = torch.zeros(x.shape[:-1])
    for part in x.unbind(-1):
        total = total + part
    return total


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_layer_norm_in_float32_stays_within_its_bound(dtype: str, bias: bool) -> None:
    _, inputs, expected, allowed = of_op("layernorm", {"dtype": dtype, "hidden": 4096, "bias": bias})
    assert (inputs["bias"] is not None) == bias
    x = inputs["x"].float()
    mean = one_by_one(x)[:, None] * (1 / 4096)  # many more additions than a lane makes
    apart = x - mean
    factor = (one_by_one(apart * apart)[:, None] * (1 / 4096) + inputs["eps"]).rsqrt()
    found = apart * factor * inputs["weight"].float()
    found = found + inputs["bias"].float() if bias else found
    assert compare(found.to(inputs["out"].dtype), expected, allowed).error < 0.9
    assert compare((found - mean * factor).to(inputs["out"].dtype), expected, allowed).error > 10


@pytest.mark.parametrize("function", ["sum", "mean"])
def test_sums_in_float32_stay_within_their_bound(function: str) -> None:
    """In the worst order, one after the other by each lane, and the lanes after each other."""
    config, inputs, expected, allowed = of_op("reduce", {"dtype": "float32", "width": 8192, "function": function})
    assert config["threads"] == 256
    lanes = inputs["x"].view(5, 8, 256, 4).permute(0, 2, 1, 3).reshape(5, 256, 32)
    total = one_by_one(one_by_one(lanes))
    found = total if function == "sum" else total * (1 / 8192)
    assert compare(found, expected, allowed).error < 0.9
    assert compare(found * (1 - 1 / 8192), expected, allowed).error > 1, "an element is missing"


def largest(row: list[float], group: int) -> tuple[float, int]:
    """The largest value and its first place, as a lane finds it: by the first group that has most, then inside it."""

    def same(one: float, other: float) -> bool:
        return one == other or (math.isnan(one) and math.isnan(other))

    most, first = -math.inf, 0
    for start in range(0, len(row), group):
        mine = float(torch.tensor([most, *row[start : start + group]]).amax())
        most, first = mine, first if same(mine, most) else start
    return most, next(i for i in range(first, first + group) if same(row[i], most))


def test_the_largest_value_is_torchs_of_every_kind_of_number() -> None:
    nan, inf = float("nan"), float("inf")
    rows = [
        [1.0, 3.0, 3.0, -2.0], [-0.0, 0.0, -0.0, -1.0], [0.0, -0.0, -1.0, -inf], [-inf, -inf, -inf, -inf],
        [1.0, nan, inf, nan], [inf, -inf, inf, 1.0], [-nan, 1.0, nan, 2.0], [-1e-40, -1.0, -1e-41, -inf],
    ]  # fmt: skip
    x = torch.tensor(rows)
    for function in ("max", "argmax"):
        config, declaration = (
            full("reduce", {"dtype": "float32", "width": 4, "function": function}),
            load(find("reduce")),
        )
        reference = declaration_of(declaration).reference
        assert reference
        expected = reference(config, {"x": x})["out"]
        torch_says = x.argmax(-1) if function == "argmax" else x.amax(-1).double()
        assert torch.equal(expected.nan_to_num(7.0), torch_says.nan_to_num(7.0))
        for group in (1, 2, 4):
            found = torch.tensor([largest(row, group)[function == "argmax"] for row in x.tolist()])
            assert torch.equal(expected.nan_to_num(7.0), found.to(expected.dtype).nan_to_num(7.0))


@pytest.mark.parametrize(
    ("op", "config", "reason"),
    [
        ("softmax", {"dtype": "bfloat16", "width": 1001}, "width is 1001: use a multiple of 8"),
        ("softmax", {"dtype": "float32", "width": 0}, "width is 0: use a multiple of 4"),
        ("reduce", {"dtype": "int8", "width": 8, "function": "sum"}, "use one of float32, float16, bfloat16"),
        ("softmax", {"dtype": "bfloat16", "width": 4096, "cluster": 3}, "cluster is 3: use one of 1, 2, 4, 8"),
        ("softmax", {"dtype": "bfloat16", "width": 4104, "cluster": 2}, "blocks share a row in equal parts"),
        ("softmax", {"dtype": "float32", "width": 32768, "staged": True}, "131072 bytes for each block"),
        ("softmax", {"dtype": "float32", "width": 64, "staged": True}, "a block has several rows"),
        ("softmax", {"dtype": "bfloat16", "width": 32768, "threads": 64, "staged": True}, "64 vectors for each thread"),
        ("reduce", {**HALF, "width": 256, "function": "max", "cluster": 2}, "rows are too short to be shared"),
        ("layernorm", {"dtype": "bfloat16", "hidden": -8}, "hidden is -8: use a multiple of 8"),
        ("layernorm", {"dtype": "bfloat16", "hidden": 64, "threads": 100}, "threads is 100: use one of"),
    ],
)
def test_what_cannot_be_built_is_refused(op: str, config: dict[str, Any], reason: str) -> None:
    assert reason in str(declaration_of(load(find(op))).refusal(full(op, config), SM90))


def test_clusters_are_for_gpus_that_have_them() -> None:
    declaration = declaration_of(load(find("softmax")))
    config = full("softmax", {**HALF, "width": 128256, "cluster": 4, "threads": 512})
    assert declaration.refusal(config, SM90) is None and declaration.refusal(config, Target.parse("sm_120a")) is None
    assert "clusters need sm_90" in str(declaration.refusal(config, Target.parse("sm_80")))
