"""``rmsnorm_fp8``: a norm that is stored as float8, with a scale for each row that is found on the way.

FlashInfer's ``rmsnorm_fp8`` and ``fused_add_rmsnorm_fp8`` take one scale, which is known before; this finds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring.declare import Tolerance
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import float8, row_cases
from precast.kernels.row_kernel import Constant, RowKernel, Tensor
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_MATRIX = ("rows", "hidden")
_THREADS = (128, 256, 512, 1024)
_STEP = 16  # elements of float8 in 16 bytes
_EPS = 1e-6
_LEAST = 2.0**-20  # of the scales, so that a row of zeros has one


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = configs.not_among(config, "dtype", ("bfloat16", "float16"))
    reason = reason or row_cases.refusal(config, "hidden", multiple=_STEP, threads=_THREADS)
    return reason or row_cases.spill_refusal(config, "hidden")


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sum, its norm before the sum is rounded, and the scale of each row, in float64."""
    x = inputs["x"].double()
    results = {}
    if inputs["residual"] is not None:
        x = x + inputs["residual"].double()
        results["residual"] = x
    normal = x * (x.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt() * inputs["weight"].double()
    scale = (normal.abs().amax(dim=-1) / float8.LARGEST).clamp(min=_LEAST)
    return {**results, "out": normal / scale.unsqueeze(-1), "scale": scale}


def tolerance(config: Config) -> Tolerance:
    """Rounding to the stored dtype, after arithmetic in float32. Where the sum nearly cancels, the error is in
    proportion to its terms, and the norm's in proportion to the row's largest value, which is stored as 448."""
    return Tolerance(rtol=1e-5, atol=4e-6, ulps=0.75)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """The same in torch: many kernels unless torch compiles it."""
    import torch
    from torch.nn.functional import rms_norm

    x, residual, weight, eps = inputs["x"], inputs["residual"], inputs["weight"], inputs["eps"]

    def all_of_it() -> Any:
        total = x if residual is None else x + residual
        normal = rms_norm(total.float(), weight.shape, weight.float(), eps)
        scale = (normal.abs().amax(dim=-1) / float8.LARGEST).clamp(min=_LEAST)
        return total, (normal / scale.unsqueeze(-1)).to(torch.float8_e4m3fn), scale

    return {"torch rms_norm, amax, to": all_of_it}


RMSNORM_FP8 = RowKernel(
    op="rmsnorm_fp8",
    targets=("sm_90+",),
    arguments=(
        Tensor("x", _MATRIX),
        Tensor("residual", _MATRIX, role="in_out", when="residual"),
        Tensor("weight", ("hidden",)),
        Tensor("out", _MATRIX, "float8_e4m3fn", role="out"),
        Tensor("scale", ("rows",), "float32", role="out"),
        Constant("eps", _EPS),
    ),
    problems=partial(row_cases.problems, key="hidden", pad=_STEP),
    special_values=("zero", "denormal"),  # a largest value drops NaN
    flops=6,
)


@RMSNORM_FP8
def rmsnorm_fp8(dtype: DType, hidden: int, residual: bool = False, threads: Tuned[int] = 256) -> Any:
    """Root-mean-square norm as float8, with a scale for each row: ``(x, residual, weight, out, scale, eps)``.

    ``scale`` ``[rows]`` of float32 takes the largest value of each row's norm over 448, and ``out`` ``[rows, hidden]``
    of ``float8_e4m3fn`` the norm over that: ``out * scale`` is the norm. A scale is at least ``2**-20``. ``x`` is
    ``[rows, hidden]`` and ``weight`` ``[hidden]``. With ``residual``, ``residual`` ``[rows, hidden]`` is added to ``x``
    first, and the sum stored in its place; the norm is of the sum before it is rounded. Without, pass None, or leave it
    out of a call by name. Row strides are their own, and keep rows aligned to 16 bytes.
    """
    from precast.kernels.own.norms.device.rmsnorm_fp8 import compile_rmsnorm_fp8

    return compile_rmsnorm_fp8(to_cutlass(dtype), hidden, residual, threads, _LEAST)
