"""``silu_and_mul_fp8``: SwiGLU after a product, stored as float8 with a scale for every 128 columns of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import float8, row_cases
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_THREADS = (64, 128, 256, 512)
_UNROLL = (1, 2, 4)
_STEP = 16  # elements of float8 in 16 bytes


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "bfloat16", "width": 1000, "threads": 128, "unroll": 2}, Target.parse("sm_90a"))
    'width is 1000: use a multiple of 128'
    """
    reason = configs.not_among(config, "unroll", _UNROLL)
    return reason or row_cases.refusal(config, "width", multiple=float8.BLOCK, threads=_THREADS)


def large(config: Config) -> Problem:
    """More than 2**31 elements, in rows of twice the width."""
    return {"rows": (1 << 31) // (2 * configs.integer(config, "width")) + 3, "padding": 0}


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, ``out`` and ``scale``. Padding is memory between the rows."""
    dtype, width = str(config["dtype"]), configs.integer(config, "width")
    rows, padding = problem["rows"], problem["padding"]
    return {
        "x": tensors.normal((rows, 2 * width), dtype, device=device, seed=seed, row_stride=2 * width + padding),
        "out": tensors.empty((rows, width), "float8_e4m3fn", device=device, row_stride=width + padding),
        "scale": float8.scales(rows, width, float8.BLOCK, device=device, padding=padding),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The products over their scales, and the scales, in float64."""
    from torch.nn.functional import silu

    gate, up = inputs["x"].double().chunk(2, dim=-1)
    out, scale = float8.quantized(silu(gate) * up, float8.BLOCK)
    return {"out": out, "scale": scale}


def tolerance(config: Config) -> Tolerance:
    """Rounding to the nearest number, after arithmetic in float32 with an approximate exponential."""
    return Tolerance(rtol=1e-5, atol=0.0, ulps=0.75)


def cost(config: Config, problem: Problem) -> Cost:
    """Some six operations for each result; two elements read for each one written, and a scale for every 128.

    >>> cost({"dtype": "bfloat16", "width": 128}, {"rows": 2})
    Cost(flops=1536, bytes=1288)
    """
    elements = problem["rows"] * configs.integer(config, "width")
    width = bits(str(config["dtype"])) // 8
    return Cost(6 * elements, elements * (2 * width + 1) + elements // float8.BLOCK * 4)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """The same in torch: many kernels unless torch compiles it."""
    import torch
    from torch.nn.functional import silu

    gate, up = inputs["x"].chunk(2, dim=-1)

    def all_of_it() -> Any:
        out, scale = float8.quantized(silu(gate.float()) * up.float(), float8.BLOCK)
        return out.to(torch.float8_e4m3fn), scale

    return {"torch silu, mul, amax, div, to": all_of_it}


@kernel(
    op="silu_and_mul_fp8",
    targets=["sm_90+"],
    problems=partial(row_cases.problems, key="width", pad=_STEP),
    outputs=["out", "scale"],
    special_values=["zero"],  # a largest value drops NaN
)
def silu_and_mul_fp8(dtype: DType, width: int, threads: Tuned[int] = 128, unroll: Tuned[int] = 2) -> Any:
    """``silu_and_mul_fp8(x, out, scale)``: SiLU of the first half of ``x`` times the second half, as float8.

    ``x`` is ``[rows, 2 * width]``, as the product with ``cat(gate, up)`` makes it, and ``out`` ``[rows, width]`` of
    ``float8_e4m3fn``; row strides are their own and keep rows aligned to 16 bytes. ``scale`` is float32,
    ``[width / 128, rows]``: the largest size of 128 columns of a row over 448, at least 1e-10 / 448. Scales of
    neighbouring rows are contiguous, with any stride between blocks of columns, as FlashInfer's and TensorRT-LLM's
    products in float8 read them. The result is not rounded to ``dtype`` before. ``act_and_mul`` is the same without
    float8.
    """
    from precast.kernels.own.activation.device.silu_and_mul_fp8 import compile_silu_and_mul_fp8

    return compile_silu_and_mul_fp8(to_cutlass(dtype), width, threads, unroll, float8.LEAST)
