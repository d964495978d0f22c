"""``flashinfer.rmsnorm_sigmoid_gate``: the norm of each head of a token, times the sigmoid of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.composition import Part
from precast.kernels.authoring.declare import Problem
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_WIDTH = 64  # of a head


def part(config: Config, target: Target) -> Part:
    """One token and some, in rows of other tensors."""
    return Part(
        problems=[{"tokens": tokens} for tokens in (1, 3, 33)],
        inputs=inputs,
        outputs=("output",),
        reference=reference,
        tolerance=lambda config: rounding.stored("bfloat16", 2.0**-18),
    )


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Heads, and a gate for each number, as columns of wider rows."""
    tokens, heads = problem["tokens"], configs.integer(config, "num_heads")

    def rows(stride: str, number: int) -> Any:
        values = tensors.normal(
            (tokens, configs.integer(config, stride)), "bfloat16", device=device, seed=seed + number
        )
        return values.unflatten(1, (-1, _WIDTH))[:, :heads]

    output = rows("x_token_stride", 2)
    return {"x": rows("x_token_stride", 0), "gate": rows("gate_token_stride", 1), "output": output, "eps": 1e-6}


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """In float64."""
    x = values["x"].double()
    scale = (x.square().mean(dim=-1, keepdim=True) + values["eps"]).rsqrt()
    return {"output": x * scale * values["gate"].double().sigmoid()}
