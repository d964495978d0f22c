"""``rmsnorm_fp8``: a norm that is stored as float8, with a scale for each row that is found on the way.

FlashInfer's ``rmsnorm_fp8`` and ``fused_add_rmsnorm_fp8`` take one scale, which is known before; this finds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import float8
from precast.kernels.own.rows import split_of
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_THREADS = (128, 256, 512, 1024)
_STEP = 16  # elements of float8 in 16 bytes
_EPS = 1e-6
_LEAST = 2.0**-20  # of the scales, so that a row of zeros has one


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "bfloat16", "hidden": 1000, "threads": 128}, Target.parse("sm_90a"))
    'hidden is 1000: use a multiple of 16, which are 16 bytes of float8'
    """
    if reason := configs.not_among(config, "threads", _THREADS):
        return reason
    if config["dtype"] not in ("bfloat16", "float16"):
        return f"dtype is {config['dtype']}: use bfloat16 or float16"
    hidden = configs.integer(config, "hidden")
    if hidden < _STEP or hidden % _STEP:
        return f"hidden is {hidden}: use a multiple of {_STEP}, which are 16 bytes of float8"
    if not split_of(config).held:
        return f"hidden is {hidden}, and threads {config['threads']}: a row stays in registers; use more threads"
    return None


def problems(config: Config) -> Sequence[Problem]:
    """No row, one row, about as many as a block takes, padded rows, and a large matrix last."""
    rows, pad = split_of(config).rows, _STEP
    large = max(64, (1 << 26) // configs.integer(config, "hidden"))
    cases = [(0, 0), (1, pad), (rows, 0), (rows + 1, pad), (5 * rows + 3, 3 * pad), (133, 0), (large, 0)]
    return [{"rows": rows, "padding": padding} for rows, padding in cases]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument by name; None for the residual where this config is without it."""
    dtype, hidden, rows = str(config["dtype"]), configs.integer(config, "hidden"), problem["rows"]
    stride = hidden + problem.get("padding", 0)

    def matrix(seed: int) -> Any:
        return tensors.normal((rows, hidden), dtype, device=device, seed=seed, row_stride=stride)

    return {
        "x": matrix(seed),
        "residual": matrix(seed + 1) if config["residual"] else None,
        "weight": tensors.normal((hidden,), dtype, device=device, seed=seed + 2),
        "out": tensors.empty((rows, hidden), "float8_e4m3fn", device=device, row_stride=stride),
        "scale": tensors.empty((rows,), "float32", device=device),
        "eps": _EPS,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sum, its norm before the sum is rounded, and the scale of each row, in float64."""
    x = inputs["x"].double()
    found = {}
    if inputs["residual"] is not None:
        x = x + inputs["residual"].double()
        found["residual"] = x
    normal = x * (x.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt() * inputs["weight"].double()
    scale = (normal.abs().amax(dim=-1) / float8.LARGEST).clamp(min=_LEAST)
    return {**found, "out": normal / scale.unsqueeze(-1), "scale": scale}


def tolerance(config: Config) -> Tolerance:
    """Rounding to the stored dtype, after arithmetic in float32. Where the sum nearly cancels, the error is in
    proportion to its terms, and the norm's in proportion to the row's largest value, which is stored as 448."""
    return Tolerance(rtol=1e-5, atol=4e-6, ulps=0.75)


def cost(config: Config, problem: Problem) -> Cost:
    """Six operations for each element; everything read once and written once.

    >>> cost({"dtype": "bfloat16", "hidden": 4096, "residual": True}, {"rows": 1, "padding": 0})
    Cost(flops=24576, bytes=36868)
    """
    hidden, rows, width = configs.integer(config, "hidden"), problem["rows"], bits(str(config["dtype"])) // 8
    moved = (3 if config["residual"] else 1) * width + 1
    return Cost(6 * rows * hidden, rows * (hidden * moved + 4) + hidden * width)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """The same in torch, which is many kernels if nobody compiles it."""
    import torch
    from torch.nn.functional import rms_norm

    x, residual, weight, eps = inputs["x"], inputs["residual"], inputs["weight"], inputs["eps"]

    def all_of_it() -> Any:
        total = x if residual is None else x + residual
        normal = rms_norm(total.float(), weight.shape, weight.float(), eps)
        scale = (normal.abs().amax(dim=-1) / float8.LARGEST).clamp(min=_LEAST)
        return total, (normal / scale.unsqueeze(-1)).to(torch.float8_e4m3fn), scale

    return {"torch rms_norm, amax, to": all_of_it}


@kernel(
    op="rmsnorm_fp8",
    targets=["sm_90+"],
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["residual", "out", "scale"],
    in_place=["residual"],
    reference=reference,
    tolerance=tolerance,
    special_values=["zero", "denormal"],  # a largest value drops NaN
    cost=cost,
    peer=peer,
)
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
