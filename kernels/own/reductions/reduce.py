"""``reduce``: the sum, the mean, the largest value or its place in each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import row_cases
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_FUNCTIONS = ("sum", "mean", "max", "argmax")
_MIDDLE = 3.0


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "float32", "width": 8, "function": "min"}, Target.parse("sm_90a"))
    'function is min: use one of sum, mean, max, argmax'
    """
    reason = configs.not_among(config, "function", _FUNCTIONS) or row_cases.refusal(config, "width")
    return reason or row_cases.cluster_refusal(config, "width", target)


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x`` and ``out``. What is added up has a mean of 3, so that sums do not cancel. Padding lies between rows."""
    dtype, width, rows = str(config["dtype"]), configs.integer(config, "width"), problem["rows"]
    x = tensors.normal((rows, width), dtype, device=device, seed=seed, row_stride=width + problem.get("padding", 0))
    if config["function"] in ("sum", "mean"):
        x.add_(_MIDDLE)
    result = "int64" if config["function"] == "argmax" else dtype
    return {"x": x, "out": tensors.empty((rows,), result, device=device)}


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """In float64, and of equal values the first."""
    import torch

    x = inputs["x"].double()
    if config["function"] in ("sum", "mean"):
        return {"out": x.sum(dim=-1) if config["function"] == "sum" else x.mean(dim=-1)}
    largest = x.amax(dim=-1)
    if config["function"] == "max":
        return {"out": largest}
    is_largest = (x == largest.unsqueeze(-1)) | x.isnan()
    return {"out": is_largest.to(torch.uint8).argmax(dim=-1)}


def tolerance(config: Config) -> Tolerance:
    """The additions in float32, of numbers whose sizes add up to at most twice their sum, and the rounding to the
    stored dtype. The largest value is exact."""
    if config["function"] in ("max", "argmax"):
        return Tolerance(rtol=0.0, atol=0.0)
    split = row_cases.split_of(config, "width")
    additions = row_cases.additions(split) + configs.integer(config, "cluster")
    return rounding.stored(str(config["dtype"]), (2 * additions + 2) * 2.0**-24)


def cost(config: Config, problem: Problem) -> Cost:
    """One operation for each element, which is read once; a number written for each row.

    >>> cost({"dtype": "bfloat16", "width": 1000, "function": "argmax"}, {"rows": 2})
    Cost(flops=2000, bytes=4016)
    """
    rows, elements = problem["rows"], problem["rows"] * configs.integer(config, "width")
    width = bits(str(config["dtype"])) // 8
    return Cost(elements, elements * width + rows * (8 if config["function"] == "argmax" else width))


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own."""
    x, function = inputs["x"], str(config["function"])
    name = "amax" if function == "max" else function
    return {f"torch {name}": lambda: getattr(x, name)(dim=-1)}


@kernel(
    op="reduce",
    targets=["sm_80+"],
    problems=partial(row_cases.problems, key="width"),
    large=partial(row_cases.large, key="width"),
    outputs=["out"],
)
def reduce(
    dtype: DType,
    width: int,
    function: Literal["sum", "mean", "max", "argmax"],
    cluster: Tuned[int] = 1,
    threads: Tuned[int] = 256,
) -> Any:
    """``reduce(x, out)``: one number for each row, ``out`` ``[rows]``.

    ``x`` is ``[rows, width]``, of a row stride that keeps rows aligned to 16 bytes. ``sum`` and ``mean`` are computed
    in float32 and stored in the dtype of ``x``, as is ``max``. ``argmax`` is the first place of the largest value, as
    int64. As in torch, NaN is larger than any number. A ``cluster`` of blocks may share a long row.
    """
    from precast.kernels.own.reductions.device.reduce import compile_reduce

    return compile_reduce(to_cutlass(dtype), width, function, cluster, threads)
