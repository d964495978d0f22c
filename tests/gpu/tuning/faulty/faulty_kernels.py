"""Candidates that compute ``out = 2 * x``, of which some fault, hang, refuse a size, or are wrong.

This module imports no compiler: it is also read where the kernels are launched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import Problem, kernel
from precast.kernels.authoring.hints import Tuned
from precast.loader.contract.format.config import Config


def problems(config: Config) -> list[Problem]:
    """One size that ``refuse`` refuses, and one that it takes."""
    return [{"n": 1000}, {"n": 4096}]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Two vectors."""
    shape = (problem["n"],)
    return {
        "x": tensors.normal(shape, "float32", device=device, seed=seed),
        "out": tensors.empty(shape, "float32", device=device),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The product in float64."""
    return {"out": inputs["x"].double() * 2.0}


@kernel(
    op="faulty",
    targets=["sm_80+"],
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    reference=reference,
    special_values=[],
)
def faulty(kind: Tuned[Literal["right", "fault", "hang", "refuse", "wrong", "last"]]) -> Any:
    """``right`` and ``last`` are right, whatever the others did to the process before."""
    from faulty_device import compile_kind  # type: ignore[import-not-found]

    return compile_kind(kind)
