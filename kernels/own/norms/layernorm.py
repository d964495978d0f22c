"""``layernorm``: every row less its mean, over its standard deviation, times a weight for each column, plus a bias."""

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
_EPS = 1e-5


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return row_cases.refusal(config, "hidden")


def prepare(config: Config, inputs: dict[str, Any], seed: int) -> None:
    """A mean that is not zero."""
    inputs["x"].add_(0.5)


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64."""
    from torch.nn.functional import layer_norm

    weight, bias = inputs["weight"].double(), inputs["bias"]
    bias = None if bias is None else bias.double()
    return {"out": layer_norm(inputs["x"].double(), weight.shape, weight, bias, inputs["eps"])}


def tolerance(config: Config) -> Tolerance:
    """The error of the arithmetic in float32, and the rounding to the stored dtype.

    With ``u = 2**-24``, half a unit in the last place of float32, errors add up to first order:

    - The factor: squares, their sum and its mean as in ``rmsnorm``, then the root: ``(additions + 6) / 2 + 4`` ``u``.
    - The subtraction of the mean, and three further operations: ``4 u`` of the result.
    - The mean is off by ``u`` for each addition, of the mean size of a row's values (at most 1.2, at a standard
      deviation of 1), and what is subtracted and added by as much as the result is smaller than its terms: absolute
      errors, times a weight of at most 6.
    """
    additions = row_cases.additions(row_cases.split_of(config, "hidden"))
    stored = rounding.stored(str(config["dtype"]), ((additions + 6) / 2 + 4 + 4) * 2.0**-24)
    return Tolerance(rtol=stored.rtol, atol=(1.2 * additions + 16) * 6 * 2.0**-24, ulps=stored.ulps)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own norm."""
    from torch.nn.functional import layer_norm

    x, weight, bias, eps = inputs["x"], inputs["weight"], inputs["bias"], inputs["eps"]
    return {"torch layer_norm": lambda: layer_norm(x, weight.shape, weight, bias, eps)}


LAYERNORM = RowKernel(
    op="layernorm",
    targets=("sm_80+",),
    arguments=(
        Tensor("x", _MATRIX),
        Tensor("weight", ("hidden",)),
        Tensor("bias", ("hidden",), when="bias"),
        Tensor("out", _MATRIX, role="out"),
        Constant("eps", _EPS),
    ),
    problems=partial(row_cases.problems, key="hidden"),
    large=partial(row_cases.large, key="hidden"),
    prepare=prepare,
    flops=8,
)


@LAYERNORM
def layernorm(dtype: DType, hidden: int, bias: bool = True, threads: Tuned[int] = 128) -> Any:
    """``layernorm(x, weight, bias, out, eps)``: layer norm of each row, computed in float32.

    ``x`` and ``out`` are ``[rows, hidden]``, of row strides that keep rows aligned to 16 bytes; ``out`` may be ``x``.
    ``weight`` and ``bias`` are ``[hidden]``. With ``bias: false`` pass None, or leave it out of a call by name.
    """
    from precast.kernels.own.norms.device.layernorm import compile_layernorm

    return compile_layernorm(to_cutlass(dtype), hidden, bias, threads)
