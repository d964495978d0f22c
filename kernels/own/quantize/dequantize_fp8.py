"""``dequantize_fp8``: rows of float8 times their scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.declare import Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import float8
from precast.kernels.own.quantize import blocks
from precast.loader.contract.format.config import Config


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, ``scale`` and ``out``. Padding is memory between the rows."""
    dtype, width = str(config["dtype"]), configs.integer(config, "width")
    rows, padding = problem["rows"], problem["padding"]
    stride = width + padding
    scale = float8.scales(rows, width, blocks.block_of(config), device=device, padding=padding)
    scale.copy_(tensors.normal(tuple(scale.shape), "float32", device=device, seed=seed + 1).abs_())
    return {
        "x": tensors.normal((rows, width), "float8_e4m3fn", device=device, seed=seed, row_stride=stride),
        "scale": scale,
        "out": tensors.empty((rows, width), dtype, device=device, row_stride=stride),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The products in float64."""
    return {"out": float8.dequantized(inputs["x"], inputs["scale"])}


def tolerance(config: Config) -> Tolerance:
    """One rounding in float32, of at most ``2**-24``, and one to the stored dtype."""
    return rounding.stored(str(config["dtype"]), 2.0**-23)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """The same in torch: several kernels unless torch compiles it."""
    x, scale, dtype = inputs["x"], inputs["scale"], inputs["out"].dtype
    by_row = scale.unsqueeze(0) if scale.dim() == 1 else scale
    shape = (x.shape[0], by_row.shape[0], -1)
    several = {"torch to, mul": lambda: (x.view(shape).float() * by_row.T.unsqueeze(-1)).to(dtype).view(x.shape)}
    return several if x.is_contiguous() else {}


@kernel(
    op="dequantize_fp8",
    targets=["sm_89+"],
    supports=blocks.supports,
    problems=blocks.problems,
    large=blocks.large,
    outputs=["out"],
    cost=partial(blocks.cost, flops=1),
)
def dequantize_fp8(
    dtype: DType,
    width: int,
    block: Literal["token", 128] = "token",
    threads: Tuned[int] = 128,
    unroll: Tuned[int] = 2,
) -> Any:
    """``dequantize_fp8(x, scale, out)``: ``out = x * scale``, as ``quantize_fp8`` has stored it.

    ``x`` is ``[rows, width]`` of ``float8_e4m3fn``, and ``out`` the same of ``dtype``; row strides are their own, and
    keep rows aligned to 16 bytes. ``scale`` is float32: ``[rows]`` (``block: token``), or ``[width / 128, rows]``
    (``block: 128``), at any stride between blocks of columns.
    """
    from precast.kernels.own.quantize.device.dequantize_fp8 import compile_dequantizer

    return compile_dequantizer(to_cutlass(dtype), width, block == 128, threads, unroll)
