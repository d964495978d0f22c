"""``scale``: multiply every element of a tensor by a number."""

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
    """The products in float64, with the factor rounded to float32."""
    import torch

    factor = torch.tensor(inputs["factor"], dtype=torch.float32).double().item()
    return {"out": inputs["x"].double() * factor}


def tolerance(config: Config) -> Tolerance:
    """One rounding in float32, of at most ``2**-24``, and one to the stored dtype."""
    return rounding.stored(str(config["dtype"]), 2.0**-23)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own multiplication, into the same memory."""
    import torch

    x, out, factor = inputs["x"], inputs["out"], inputs["factor"]
    return {"torch.mul": lambda: torch.mul(x, factor, out=out)}


SCALE = Elementwise(op="scale", tensors=("x",), numbers={"factor": lambda seed: 1.7 - seed % 5})


@SCALE
def scale(dtype: DType, rank: Literal[1, 2] = 1, threads: Tuned[int] = 256, unroll: Tuned[int] = 1) -> Any:
    """``scale(x, out, factor)``: ``out = x * factor``, computed in float32.

    With ``rank`` 1, ``x`` and ``out`` are contiguous and one-dimensional, of any length: pass ``x.view(-1)``. With
    ``rank`` 2 they are matrices, whose row strides are their own and keep rows aligned to 16 bytes. ``out`` may be
    ``x``.
    """
    from precast.kernels.own.elementwise.device.scale import compile_scale

    return compile_scale(to_cutlass(dtype), rank, threads, unroll)
