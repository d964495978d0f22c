"""``act_and_mul``: its reference beside torch's formulas, its bound, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from precast.kernels import declaration_of
from precast.kernels.authoring.schema import keys_of
from precast.kernels.own.activation.act_and_mul import act_and_mul
from precast.kernels.own.gelu import log2_odds
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from precast.measure.checks.compare import compare

SM90 = Target.parse("sm_90a")


def full(**config: Any) -> dict[str, Any]:
    return complete(keys_of(act_and_mul), {"dtype": "bfloat16", "width": 136, **config}, op="act_and_mul")


def in_float32(activation: str, gate: torch.Tensor, up: torch.Tensor, dtype: str) -> torch.Tensor:
    """As the kernel computes it, for results of a dtype."""
    if activation == "gelu" and dtype != "float32":
        return gate / (1.0 + torch.exp2(-log2_odds(gate))) * up
    if activation == "gelu":
        return 0.5 * gate * (1.0 + torch.erf(gate * math.sqrt(0.5))) * up
    angle = gate if activation == "silu" else gate * (1.0 + 0.044715 * gate * gate) * math.sqrt(8 / math.pi)
    return gate / (1.0 + torch.exp(-angle)) * up


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
def test_arithmetic_in_float32_stays_within_the_bound(activation: str, dtype: str) -> None:
    config = full(dtype=dtype, activation=activation)
    declaration = declaration_of(act_and_mul)
    assert declaration.verifiable and declaration.refusal(config, SM90) is None
    assert declaration.problems and declaration.inputs and declaration.reference and declaration.tolerance
    for problem in [{"rows": 0}, {"rows": 300, "padding": 8}]:
        inputs = declaration.inputs(config, problem, device="cpu", seed=1)
        expected = declaration.reference(config, inputs)["out"]
        assert expected.shape == inputs["out"].shape
        gate, up = inputs["x"].float().chunk(2, dim=-1)
        found = in_float32(activation, gate, up, dtype).to(inputs["out"].dtype)
        assert compare(found, expected, declaration.tolerance(config)).error < 0.9
        if problem["rows"]:
            swapped = in_float32(activation, up, gate, dtype).to(found.dtype)
            assert compare(swapped, expected, declaration.tolerance(config)).error > 10


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"dtype": "int8"}, "use one of float32, float16, bfloat16"),
        ({"width": 100}, "width is 100: use a multiple of 8"),
        ({"width": 0}, "width is 0: use a multiple of 8"),
        ({"dtype": "float32", "width": 6}, "width is 6: use a multiple of 4"),
        ({"threads": 32}, "threads is 32: use one of"),
        ({"unroll": 3}, "unroll is 3: use one of"),
    ],
)
def test_what_cannot_be_built_is_refused(config: dict[str, Any], reason: str) -> None:
    assert reason in str(declaration_of(act_and_mul).refusal(full(**config), SM90))
