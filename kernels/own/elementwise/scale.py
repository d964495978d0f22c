"""``scale``: multiply every element of a tensor by a number."""

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
    """``x``, ``out`` and ``factor`` of one problem."""
    return {
        "x": forms.random(config, problem, device=device, seed=seed),
        "out": forms.empty(config, problem, device=device),
        "factor": 1.7 - seed % 5,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The products in float64, with the factor rounded to float32."""
    import torch

    factor = torch.tensor(inputs["factor"], dtype=torch.float32).double().item()
    return {"out": inputs["x"].double() * factor}


def tolerance(config: Config) -> Tolerance:
    """One rounding in float32, of at most ``2**-24``, and one to the stored dtype."""
    return rounding.stored(str(config["dtype"]), 2.0**-23)


def cost(config: Config, problem: Problem) -> Cost:
    """One multiplication for each element, which is read once and written once.

    >>> cost({"dtype": "bfloat16"}, {"n": 1000})
    Cost(flops=1000, bytes=4000)
    """
    n = prod(forms.shape(problem))
    return Cost(flops=n, bytes=2 * n * bits(str(config["dtype"])) // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own multiplication, into the same memory."""
    import torch

    x, out, factor = inputs["x"], inputs["out"], inputs["factor"]
    return {"torch.mul": lambda: torch.mul(x, factor, out=out)}


def launch(config: Config) -> LaunchPlan:
    """One block for each tile, and one for an empty tensor."""
    return forms.launch(config, ("x", "out", "factor"))


@kernel(
    op="scale",
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
def scale(dtype: DType, rank: Literal[1, 2] = 1, threads: Tuned[int] = 256, unroll: Tuned[int] = 1) -> Any:
    """``scale(x, out, factor)``: ``out = x * factor``, computed in float32.

    With ``rank`` 1, ``x`` and ``out`` are contiguous and one-dimensional, of any length: pass ``x.view(-1)``. With
    ``rank`` 2 they are matrices, whose row strides are their own and keep rows aligned to 16 bytes. ``out`` may be
    ``x``.
    """
    from precast.kernels.own.elementwise.device.scale import compile_scale

    return compile_scale(to_cutlass(dtype), rank, threads, unroll)
