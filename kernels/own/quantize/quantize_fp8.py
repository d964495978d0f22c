"""``quantize_fp8``: rows as float8, with a scale for each row or for every 128 columns of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import float8
from precast.kernels.own.quantize import blocks
from precast.loader.contract.format.config import Config


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, ``out`` and ``scale``. Padding is memory between the rows."""
    dtype, width = str(config["dtype"]), configs.integer(config, "width")
    rows, padding = problem["rows"], problem["padding"]
    stride = width + padding
    return {
        "x": tensors.normal((rows, width), dtype, device=device, seed=seed, row_stride=stride),
        "out": tensors.empty((rows, width), "float8_e4m3fn", device=device, row_stride=stride),
        "scale": float8.scales(rows, width, blocks.block_of(config), device=device, padding=padding),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Values over their scales, and the scales, in float64."""
    out, scale = float8.quantized(inputs["x"].double(), blocks.block_of(config))
    return {"out": out, "scale": scale}


def tolerance(config: Config) -> Tolerance:
    """Rounding to the nearest number, after three operations in float32."""
    return Tolerance(rtol=4 * 2.0**-24, atol=0.0, ulps=0.75)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """The same in torch: many kernels unless torch compiles it."""
    import torch

    x, block = inputs["x"], blocks.block_of(config)

    def all_of_it() -> Any:
        out, scale = float8.quantized(x.float(), block)
        return out.to(torch.float8_e4m3fn), scale

    return {"torch abs, amax, div, to": all_of_it} if x.is_contiguous() else {}


@kernel(
    op="quantize_fp8",
    targets=["sm_89+"],
    supports=blocks.supports,
    problems=blocks.problems,
    large=blocks.large,
    outputs=["out", "scale"],
    special_values=["zero", "denormal"],  # a largest value drops NaN
    cost=partial(blocks.cost, flops=3),
)
def quantize_fp8(
    dtype: DType,
    width: int,
    block: Literal["token", 128] = "token",
    threads: Tuned[int] = 128,
    unroll: Tuned[int] = 2,
) -> Any:
    """``quantize_fp8(x, out, scale)``: ``out * scale`` is ``x``, as nearly as float8 has it.

    ``x`` is ``[rows, width]``, and ``out`` the same of ``float8_e4m3fn``; row strides are their own, and keep rows
    aligned to 16 bytes. ``scale`` is float32: the largest size of a value over 448, of each row (``block: token``),
    ``[rows]``, or of every 128 columns of a row (``block: 128``), ``[width / 128, rows]``, where the scales of
    neighbouring rows are contiguous, with any stride between blocks of columns. A scale is at least 1e-10 / 448. Values
    are clamped, and NaN stays NaN. ``unroll`` counts for blocks alone.
    """
    if block == "token":
        from precast.kernels.own.quantize.device.tokens import compile_token_quantizer

        return compile_token_quantizer(to_cutlass(dtype), width, threads, float8.LEAST)
    from precast.kernels.own.quantize.device.blocks import compile_block_quantizer

    return compile_block_quantizer(to_cutlass(dtype), width, threads, unroll, float8.LEAST)
