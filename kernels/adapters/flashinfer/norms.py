"""FlashInfer's norms: ``rmsnorm``, and ``fused_add_rmsnorm``, which adds a residual first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from precast.kernels import configs
from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import rounding
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.kernels.authoring.hints import DType
from precast.kernels.row_kernel import Constant, RowKernel, Tensor, row_problems
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_NORMS = "flashinfer.norm.kernels"
_MATRIX = ("rows", "hidden")
_X = Tensor("x", _MATRIX)
_WEIGHT = Tensor("weight", ("hidden",))
_RESIDUAL = Tensor("residual", _MATRIX, role="in_out")
_ROWS = Constant("rows", "rows")
_EPS = Constant("eps", 1e-6)
NAMES = {"mX": "x", "mW": "weight", "mY": "out", "mR": "residual", "M": "rows"}


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.refusal(config)


def problems(config: Config) -> Sequence[Problem]:
    """Contiguous rows, and where the config allows it rows that are further apart."""
    return row_problems(configs.integer(config, "hidden"), pad=16 if config.get("strided") else 0)


def _normalised(x: Any, config: Config, inputs: Mapping[str, Any]) -> Any:
    weight = inputs["weight"].double() + float(str(config["weight_bias"]))
    return x * (x.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt() * weight


def rmsnorm_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64."""
    return {"out": _normalised(inputs["x"].double(), config, inputs)}


def fused_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sum, and its norm before the sum is rounded."""
    total = inputs["x"].double() + inputs["residual"].double()
    return {"x": _normalised(total, config, inputs), "residual": total}


def rmsnorm_peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own norm, where nothing is added to the weight; two kernels where there is a sum."""
    from torch.nn.functional import rms_norm

    x, weight, eps, residual = inputs["x"], inputs["weight"], inputs["eps"], inputs.get("residual")
    if config["weight_bias"]:
        return {}
    if residual is not None:
        return {"torch add, rms_norm": lambda: rms_norm(x + residual, weight.shape, weight, eps)}
    return {"torch rms_norm": lambda: rms_norm(x, weight.shape, weight, eps)}


def tolerance(config: Config) -> Tolerance:
    """A sum in float32, an approximate root, and the rounding to the stored dtype."""
    return rounding.tolerance(str(config["dtype"]), 8e-6)


def fused_tolerance(config: Config) -> Tolerance:
    """The same; where two terms of a sum nearly cancel, the error is in proportion to the terms."""
    return Tolerance(rtol=tolerance(config).rtol, atol=4e-6)


def _compile(function: str, dtype: str, hidden: int, weight_bias: float, strided: bool, pdl: bool) -> Any:
    return library.compiled(
        f"{_NORMS}.{function}",
        dtype_str=dtype,
        H=hidden,
        weight_bias=weight_bias,
        enable_pdl=pdl,
        sm_version=library.sm_version(),
        contiguous=not strided,
    )


RMSNORM = RowKernel(
    op="flashinfer.rmsnorm",
    imports=(f"{_NORMS}.rmsnorm",),
    targets=("sm_80+",),
    supports=supports,
    arguments=(_X, _WEIGHT, Tensor("out", _MATRIX, role="out"), _ROWS, _EPS),
    names=NAMES,
    problems=problems,
    reference=rmsnorm_reference,
    tolerance=tolerance,
    special_values=("nan", "zero", "denormal"),
    peer=rmsnorm_peer,
    flops=4,
)


@RMSNORM
def rmsnorm(dtype: DType, hidden: int, weight_bias: float = 0.0, strided: bool = False, pdl: bool = False) -> Any:
    """``rmsnorm(x, weight, out, rows, eps)``: root-mean-square norm of the rows of a matrix.

    ``x`` and ``out`` are ``[rows, hidden]`` and contiguous, or with ``strided`` of row strides that 8 divides;
    ``weight`` is ``[hidden]``. ``weight_bias`` is added to the weight (1.0 in Gemma). ``pdl`` lets the launch overlap
    the kernel before it.
    """
    return _compile("rmsnorm:_get_compiled_rmsnorm_kernel", dtype, hidden, weight_bias, strided, pdl)


FUSED_ADD_RMSNORM = replace(
    RMSNORM,
    op="flashinfer.fused_add_rmsnorm",
    arguments=(Tensor("x", _MATRIX, role="in_out"), _RESIDUAL, _WEIGHT, _ROWS, _EPS),
    reference=fused_reference,
    tolerance=fused_tolerance,
)


@FUSED_ADD_RMSNORM
def fused_add_rmsnorm(
    dtype: DType, hidden: int, weight_bias: float = 0.0, strided: bool = False, pdl: bool = False
) -> Any:
    """``fused_add_rmsnorm(x, residual, weight, rows, eps)``: in place, ``residual += x``, then ``x = norm(residual)``.

    ``x`` and ``residual`` are ``[rows, hidden]`` and contiguous, or with ``strided`` of row strides that 8 divides;
    ``weight`` is ``[hidden]``. The norm is of the sum before it is rounded.
    """
    return _compile(
        "fused_add_rmsnorm:_get_compiled_fused_add_rmsnorm_kernel", dtype, hidden, weight_bias, strided, pdl
    )
