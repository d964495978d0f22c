"""``add``: the sum of two tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Literal

from precast.kernels.authoring import rounding
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.authoring.launch_plan import LaunchPlan
from precast.kernels.own.elementwise import forms
from precast.loader.contract.format.config import Config


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, ``y`` and ``out`` of one problem."""
    return {
        "x": forms.random(config, problem, device=device, seed=seed),
        "y": forms.random(config, problem, device=device, seed=seed + 1),
        "out": forms.empty(config, problem, device=device),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sums in float64."""
    return {"out": inputs["x"].double() + inputs["y"].double()}


def tolerance(config: Config) -> Tolerance:
    """One rounding in float32, of at most ``2**-24`` of the sum, and one to the stored dtype."""
    return rounding.stored(str(config["dtype"]), 2.0**-23)


def cost(config: Config, problem: Problem) -> Cost:
    """One addition for each element; two read and one written.

    >>> cost({"dtype": "bfloat16"}, {"rows": 10, "columns": 100})
    Cost(flops=1000, bytes=6000)
    """
    n = prod(forms.shape(problem))
    return Cost(flops=n, bytes=3 * n * bits(str(config["dtype"])) // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own addition, into the same memory."""
    import torch

    x, y, out = inputs["x"], inputs["y"], inputs["out"]
    return {"torch.add": lambda: torch.add(x, y, out=out)}


def launch(config: Config) -> LaunchPlan:
    """One block for each tile, and one for empty tensors."""
    return forms.launch(config, ("x", "y", "out"))


@kernel(
    op="add",
    targets=["sm_80+"],
    supports=forms.supports,
    problems=forms.problems,
    large=forms.large,
    inputs=inputs,
    outputs=["out"],
    reference=reference,
    tolerance=tolerance,
    cost=cost,
    peer=peer,
    launch=launch,
)
def add(dtype: DType, rank: Literal[1, 2] = 1, threads: Tuned[int] = 256, unroll: Tuned[int] = 1) -> Any:
    """``add(x, y, out)``: ``out = x + y``, computed in float32.

    With ``rank`` 1, all three are contiguous and one-dimensional, of any length: pass ``x.view(-1)``. With ``rank`` 2
    they are matrices, whose row strides are their own and keep rows aligned to 16 bytes. ``out`` may be ``x`` or ``y``.
    """
    from precast.kernels.own.elementwise.device.add import compile_add

    return compile_add(to_cutlass(dtype), rank, threads, unroll)
