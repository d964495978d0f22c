"""``fused_add_rmsnorm``: the residual of a layer is added up, and its norm taken, in one kernel.

As FlashInfer's ``fused_add_rmsnorm``, but the norm may be stored elsewhere, and the next kernel is made ready as
soon as this one has begun: with few rows, that one can load its weights in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from precast.kernels.authoring import rounding
from precast.kernels.authoring.declare import Tolerance
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import row_cases
from precast.kernels.row_kernel import Constant, RowKernel, Tensor
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_MATRIX = ("rows", "hidden")
_THREADS = (128, 256, 512, 1024)
_EPS = 1e-6


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = row_cases.refusal(config, "hidden", threads=_THREADS)
    return reason or row_cases.spill_refusal(config, "hidden")


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sum, and its norm before the sum is rounded, in float64."""
    x = inputs["x"].double() + inputs["residual"].double()
    scale = (x.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt()
    return {"residual": x, "out": x * scale * inputs["weight"].double()}


def tolerance(config: Config) -> Tolerance:
    """Rounding to the stored dtype, after sums in float32 and an approximate root. Where the two terms of a sum nearly
    cancel, the error is in proportion to them."""
    stored = rounding.stored(str(config["dtype"]), 8e-6)
    return Tolerance(rtol=stored.rtol, atol=4e-6, ulps=stored.ulps)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own sum and norm: two kernels unless torch compiles them."""
    from torch.nn.functional import rms_norm

    x, residual, weight, eps = inputs["x"], inputs["residual"], inputs["weight"], inputs["eps"]

    def both() -> Any:
        total = x + residual
        return total, rms_norm(total, weight.shape, weight, eps)

    return {"torch add, rms_norm": both}


FUSED_ADD_RMSNORM = RowKernel(
    op="fused_add_rmsnorm",
    targets=("sm_90+",),
    arguments=(
        Tensor("x", _MATRIX),
        Tensor("residual", _MATRIX, role="in_out"),
        Tensor("weight", ("hidden",)),
        Tensor("out", _MATRIX, role="out"),
        Constant("eps", _EPS),
    ),
    problems=partial(row_cases.problems, key="hidden"),
    special_values=("nan", "zero"),
    flops=5,
)


@FUSED_ADD_RMSNORM
def fused_add_rmsnorm(dtype: DType, hidden: int, threads: Tuned[int] = 256) -> Any:
    """``fused_add_rmsnorm(x, residual, weight, out, eps)``: ``residual += x``, and ``out`` is the norm of the sum.

    ``x``, ``residual`` and ``out`` are ``[rows, hidden]``, of row strides that keep rows aligned to 16 bytes; ``out``
    may be ``x``. ``weight`` is ``[hidden]``. The norm is of the sum before it is rounded.
    """
    from precast.kernels.own.norms.device.fused_add_rmsnorm import compile_fused_add_rmsnorm

    return compile_fused_add_rmsnorm(to_cutlass(dtype), hidden, threads)
