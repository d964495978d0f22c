"""``act_and_mul``: an activation of one half of a row, times the other half: SwiGLU and GEGLU after a product.

``gemm_gated`` does this in the product itself. With few rows the two kernels may be faster than the one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import row_cases
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_THREADS = (64, 128, 256, 512)
_UNROLL = (1, 2, 4)


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "bfloat16", "width": 100, "threads": 128, "unroll": 2}, Target.parse("sm_90a"))
    'width is 100: use a multiple of 8'
    """
    reason = configs.not_among(config, "unroll", _UNROLL)
    return reason or row_cases.refusal(config, "width", threads=_THREADS)


def problems(config: Config) -> Sequence[Problem]:
    """No row, one, a few with padding, and a large matrix last.

    >>> problems({"dtype": "bfloat16", "width": 14336})[0]
    {'rows': 0, 'padding': 0}
    """
    pad = 128 // bits(str(config["dtype"]))
    large = max(64, (1 << 26) // configs.integer(config, "width"))
    cases = [(0, 0), (1, 0), (3, pad), (17, 0), (131, 3 * pad), (large, 0)]
    return [{"rows": rows, "padding": padding} for rows, padding in cases]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x`` and ``out`` of one problem. Padding is memory between the rows."""
    dtype, width, rows = str(config["dtype"]), configs.integer(config, "width"), problem["rows"]
    pad = problem.get("padding", 0)
    return {
        "x": tensors.normal((rows, 2 * width), dtype, device=device, seed=seed, row_stride=2 * width + pad),
        "out": tensors.empty((rows, width), dtype, device=device, row_stride=width + pad),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The activation and the product in float64."""
    import torch

    gate, up = inputs["x"].double().chunk(2, dim=-1)
    if config["activation"] == "silu":
        return {"out": torch.nn.functional.silu(gate) * up}
    kind = "tanh" if config["activation"] == "gelu_tanh" else "none"
    return {"out": torch.nn.functional.gelu(gate, approximate=kind) * up}


def tolerance(config: Config) -> Tolerance:
    """The rounding, and arithmetic in float32 with an approximate exponential. Half of gelu is a sum that may cancel,
    to as little as a float32's last digits; values are below 6 in size."""
    stored = rounding.stored(str(config["dtype"]), 6e-6)
    cancelled = 36 * 2.0**-22 if config["activation"] == "gelu" else 0.0
    return Tolerance(rtol=stored.rtol, atol=stored.atol + cancelled, ulps=stored.ulps)


def cost(config: Config, problem: Problem) -> Cost:
    """Some three operations for each result; two elements read for each one written.

    >>> cost({"dtype": "bfloat16", "width": 8}, {"rows": 2, "padding": 0})
    Cost(flops=48, bytes=96)
    """
    elements = problem["rows"] * configs.integer(config, "width")
    return Cost(3 * elements, 3 * elements * bits(str(config["dtype"])) // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """The same in torch: several kernels unless torch compiles it."""
    from torch.nn import functional

    gate, up = inputs["x"].chunk(2, dim=-1)
    activation = str(config["activation"])
    if activation == "silu":
        return {"torch silu, mul": lambda: functional.silu(gate) * up}
    kind = "tanh" if activation == "gelu_tanh" else "none"
    return {"torch gelu, mul": lambda: functional.gelu(gate, approximate=kind) * up}


@kernel(op="act_and_mul", targets=["sm_90+"], outputs=["out"], special_values=["nan", "zero"])
def act_and_mul(
    dtype: DType,
    width: int,
    activation: Literal["silu", "gelu", "gelu_tanh"] = "silu",
    threads: Tuned[int] = 128,
    unroll: Tuned[int] = 2,
) -> Any:
    """``act_and_mul(x, out)``: ``out`` is an activation of the first half of ``x``, times the second half.

    What others call ``silu_and_mul``, ``gelu_and_mul`` and ``gelu_tanh_and_mul`` is this op with that ``activation``.
    ``x`` is ``[rows, 2 * width]``, as the product with ``cat(gate, up)`` makes it, and ``out`` ``[rows, width]``; row
    strides are their own and keep rows aligned to 16 bytes.
    """
    from precast.kernels.own.activation.device.act_and_mul import compile_act_and_mul

    return compile_act_and_mul(to_cutlass(dtype), width, activation, threads, unroll)
