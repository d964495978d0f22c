"""``moe_finalize``: the results of a token's experts, each times its weight, added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.moe import moe_permute
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_LARGEST = 6.0  # in size, of the results in problems, beyond which hardly one of 2**30 normal numbers lies


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"dtype": "float32", "hidden": 4096, "topk": 8, "threads": 128, "unroll": 1}
    >>> supports(config, Target.parse("sm_90a"))
    'dtype is float32: use one of bfloat16, float16'
    """
    return moe_permute.refusal(config, ("bfloat16", "float16"))


def problems(config: Config) -> Sequence[Problem]:
    """No token, one, a few with padded rows, in one segment and in one for each expert, and many tokens last."""
    return moe_permute.cases(configs.integer(config, "hidden"))


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument by name. The weights of a token add up to 1."""
    dtype, hidden, topk = str(config["dtype"]), configs.integer(config, "hidden"), configs.integer(config, "topk")
    tokens, pad = problem["tokens"], problem.get("padding", 0)
    segments, most, rows = moe_permute.places(problem, topk, device=device, seed=seed)
    y = tensors.normal((segments, most, hidden + pad), "float32", device=device, seed=seed)
    return {
        "y": y.to(to_torch(dtype))[..., :hidden],
        "rows": rows,
        "weights": tensors.normal((tokens, topk), "float32", device=device, seed=seed + 1).softmax(dim=-1),
        "out": tensors.empty((tokens, hidden), dtype, device=device, row_stride=hidden + pad),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sum in float64, choice by choice."""
    y, rows, weights = inputs["y"].flatten(0, 1), inputs["rows"].long(), inputs["weights"].double()
    out = inputs["out"].double().zero_()
    for choice in range(rows.shape[1]):
        row = rows[:, choice]
        mine = row >= 0
        out[mine] += weights[mine, choice, None] * y[row[mine]].double()
    return {"out": out}


def tolerance(config: Config) -> Tolerance:
    """The rounding, and a sum of products in float32, which may cancel: each is off by ``2**-24`` of what was added so
    far, which the weights keep below the largest result.

    >>> tolerance({"dtype": "bfloat16", "topk": 8}).ulps
    0.75
    """
    stored = rounding.stored(str(config["dtype"]), 0.0)
    arithmetic = (configs.integer(config, "topk") + 1) * 2.0**-24 * _LARGEST
    return Tolerance(rtol=stored.rtol, atol=stored.atol + arithmetic, ulps=stored.ulps)


def cost(config: Config, problem: Problem) -> Cost:
    """Two operations for each value read; each of a token's rows read once, and the token written.

    >>> cost({"dtype": "bfloat16", "hidden": 8, "topk": 2}, {"tokens": 10})
    Cost(flops=320, bytes=640)
    """
    tokens, topk, hidden = problem["tokens"], configs.integer(config, "topk"), configs.integer(config, "hidden")
    row = hidden * bits(str(config["dtype"])) // 8
    return Cost(2 * tokens * topk * hidden, tokens * ((1 + topk) * row + 8 * topk))


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's gathering of rows and its weighted sum, where rows are one matrix: several kernels."""
    y, rows, weights = inputs["y"], inputs["rows"], inputs["weights"]
    if y.shape[0] != 1:
        return {}
    flat, index, factors = y[0], rows.long().clamp(min=0), (weights * rows.ge(0)).unsqueeze(-1)
    return {"torch index, mul, sum": lambda: (flat[index] * factors).sum(dim=1).to(flat.dtype)}


@kernel(op="moe_finalize", targets=["sm_90+"], outputs=["out"], special_values=["nan", "zero"])
def moe_finalize(dtype: DType, hidden: int, topk: int, threads: Tuned[int] = 128, unroll: Tuned[int] = 1) -> Any:
    """``moe_finalize(y, rows, weights, out)``: ``out[t]`` is the sum over choices of ``weights[t, j] * y[rows[t, j]]``.

    ``y`` ``[segments, rows, hidden]`` is laid out as ``out`` of ``moe_permute``, ``rows`` ``[tokens, topk]`` what
    ``moe_sort`` found, ``weights`` ``[tokens, topk]`` float32, and ``out`` ``[tokens, hidden]``. The sum is in float32,
    in the order of the choices; an entry that was dropped counts as zero. All strides but the last are free, and keep
    rows aligned to 16 bytes.
    """
    from precast.kernels.own.moe.device.moe_finalize import compile_moe_finalize

    return compile_moe_finalize(to_cutlass(dtype), hidden, topk, threads, unroll)
