"""``add``: the sum of two tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from precast.kernels.authoring import rounding
from precast.kernels.authoring.declare import Tolerance
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.elementwise.forms import Elementwise
from precast.loader.contract.format.config import Config


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sums in float64."""
    return {"out": inputs["x"].double() + inputs["y"].double()}


def tolerance(config: Config) -> Tolerance:
    """One rounding in float32, of at most ``2**-24`` of the sum, and one to the stored dtype."""
    return rounding.stored(str(config["dtype"]), 2.0**-23)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own addition, into the same memory."""
    import torch

    x, y, out = inputs["x"], inputs["y"], inputs["out"]
    return {"torch.add": lambda: torch.add(x, y, out=out)}


ADD = Elementwise(op="add", tensors=("x", "y"))


@ADD
def add(dtype: DType, rank: Literal[1, 2] = 1, threads: Tuned[int] = 256, unroll: Tuned[int] = 1) -> Any:
    """``add(x, y, out)``: ``out = x + y``, computed in float32.

    With ``rank`` 1, all three are contiguous and one-dimensional, of any length: pass ``x.view(-1)``. With ``rank`` 2
    they are matrices, whose row strides are their own and keep rows aligned to 16 bytes. ``out`` may be ``x`` or ``y``.
    """
    from precast.kernels.own.elementwise.device.add import compile_add

    return compile_add(to_cutlass(dtype), rank, threads, unroll)
