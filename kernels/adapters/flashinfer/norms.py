"""FlashInfer's norms: ``rmsnorm``, ``fused_add_rmsnorm`` and ``layernorm``, and those that store FP8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs, rounding
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.kernels.authoring.hints import DType
from precast.kernels.authoring.row_kernel import Constant, RowKernel, Tensor, row_problems
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_NORMS = "flashinfer.norm.kernels"
_FP8 = "float8_e4m3fn"
_MATRIX = ("rows", "hidden")
_X = Tensor("x", _MATRIX)
_WEIGHT = Tensor("weight", ("hidden",))
_RESIDUAL = Tensor("residual", _MATRIX, role="in_out")
_OUT_FP8 = Tensor("out", _MATRIX, _FP8, role="out")
_SCALE = Tensor("scale", (1,), "float32")
_ROWS = Constant("rows", "rows")
_EPS = Constant("eps", 1e-6)
NAMES = {"mX": "x", "mW": "weight", "mY": "out", "mR": "residual", "mS": "scale", "M": "rows"}


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.refusal(config)


def supports_fp8(config: Config, target: Target) -> str | None:
    """The same for rows that are stored in FP8, where 16 bytes hold 16 elements."""
    return library.refusal(config, divisor=16)


def problems(config: Config) -> Sequence[Problem]:
    """Contiguous rows, and where the config allows it rows that are further apart."""
    return row_problems(configs.integer(config, "hidden"), pad=16 if config.get("strided") else 0)


def layernorm_problems(config: Config) -> Sequence[Problem]:
    """Contiguous rows, and rows that are further apart."""
    return row_problems(configs.integer(config, "hidden"), pad=8)


def set_scale(config: Config, inputs: dict[str, Any], seed: int) -> None:
    """The scale that FP8 results are divided by."""
    inputs["scale"].fill_(1 / 32)


def _normalised(x: Any, config: Config, inputs: Mapping[str, Any]) -> Any:
    weight = inputs["weight"].double() + float(str(config["weight_bias"]))
    return x * (x.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt() * weight


def rmsnorm_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64."""
    return {"out": _normalised(inputs["x"].double(), config, inputs)}


def fp8_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64, divided by the scale and clamped to the range of FP8."""
    x = inputs["x"].double()
    if "residual" not in inputs:
        return {"out": _stored(_normalised(x, config, inputs), inputs)}
    total = x + inputs["residual"].double()
    return {"out": _stored(_normalised(total, config, inputs), inputs), "residual": total}


def _stored(value: Any, inputs: Mapping[str, Any]) -> Any:
    return (value / inputs["scale"].double()).clamp(-448.0, 448.0)


def fused_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sum, and its norm before the sum is rounded."""
    total = inputs["x"].double() + inputs["residual"].double()
    return {"x": _normalised(total, config, inputs), "residual": total}


def layernorm_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64."""
    x = inputs["x"].double()
    centred = x - x.mean(dim=-1, keepdim=True)
    scale = (centred.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt()
    return {"out": centred * scale * inputs["gamma"].double() + inputs["beta"].double()}


def rmsnorm_peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own norm, where nothing is added to the weight; two kernels where there is a sum."""
    from torch.nn.functional import rms_norm

    x, weight, eps, residual = inputs["x"], inputs["weight"], inputs["eps"], inputs.get("residual")
    if config["weight_bias"]:
        return {}
    if residual is not None:
        return {"torch add, rms_norm": lambda: rms_norm(x + residual, weight.shape, weight, eps)}
    return {"torch rms_norm": lambda: rms_norm(x, weight.shape, weight, eps)}


def layernorm_peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own norm."""
    from torch.nn.functional import layer_norm

    x, gamma, beta, eps = inputs["x"], inputs["gamma"], inputs["beta"], inputs["eps"]
    return {"torch layer_norm": lambda: layer_norm(x, gamma.shape, gamma, beta, eps)}


def tolerance(config: Config) -> Tolerance:
    """A sum in float32, an approximate root, and the rounding to the stored dtype."""
    return rounding.tolerance(str(config["dtype"]), 8e-6)


def fused_tolerance(config: Config) -> Tolerance:
    """The same; where two terms of a sum nearly cancel, the error is in proportion to the terms."""
    return Tolerance(rtol=tolerance(config).rtol, atol=4e-6)


def fp8_tolerance(config: Config) -> Tolerance:
    """Half a unit in the last place of FP8, a little for arithmetic in float32, and half its smallest step."""
    return Tolerance(rtol=2.0**-4 + 2.0**-10, atol=2.0**-10 * 1.01)


def _compile(function: str, dtype: str, hidden: int, weight_bias: float, strided: bool, pdl: bool, **fp8: Any) -> Any:
    return library.compiled(
        f"{_NORMS}.{function}",
        dtype_str=dtype,
        H=hidden,
        weight_bias=weight_bias,
        enable_pdl=pdl,
        sm_version=library.sm_version(),
        contiguous=not strided,
        **fp8,
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


RMSNORM_FP8 = replace(
    RMSNORM,
    op="flashinfer.rmsnorm_fp8",
    targets=("sm_89+",),
    supports=supports_fp8,
    arguments=(_X, _WEIGHT, _OUT_FP8, _ROWS, _SCALE, _EPS),
    prepare=set_scale,
    reference=fp8_reference,
    tolerance=fp8_tolerance,
    special_values=(),  # a scale of zero, and clamps that drop NaN
    peer=None,
)


@RMSNORM_FP8
def rmsnorm_fp8(dtype: DType, hidden: int, weight_bias: float = 0.0, strided: bool = False, pdl: bool = False) -> Any:
    """``rmsnorm_fp8(x, weight, out, rows, scale, eps)``: the norm over ``scale``, stored as ``float8_e4m3fn``.

    ``x`` and ``out`` are ``[rows, hidden]`` and contiguous, or with ``strided`` of row strides that 8 divides;
    ``weight`` is ``[hidden]``, and ``scale`` one float32 on the device. Values beyond 448 are clamped to it.
    """
    function = "rmsnorm:_get_compiled_rmsnorm_quant_kernel"
    return _compile(function, dtype, hidden, weight_bias, strided, pdl, out_dtype_str=_FP8, use_hw_fp8=True)


FUSED_ADD_RMSNORM_FP8 = replace(
    RMSNORM_FP8,
    op="flashinfer.fused_add_rmsnorm_fp8",
    arguments=(_OUT_FP8, _X, _RESIDUAL, _WEIGHT, _ROWS, _SCALE, _EPS),
)


@FUSED_ADD_RMSNORM_FP8
def fused_add_rmsnorm_fp8(
    dtype: DType, hidden: int, weight_bias: float = 0.0, strided: bool = False, pdl: bool = False
) -> Any:
    """``fused_add_rmsnorm_fp8(out, x, residual, weight, rows, scale, eps)``: ``residual += x``, and its norm as FP8.

    ``out``, ``x`` and ``residual`` are ``[rows, hidden]`` and contiguous, or with ``strided`` of row strides that 8
    divides; ``weight`` is ``[hidden]``, and ``scale`` one float32 on the device, by which the norm is divided.
    """
    function = "fused_add_rmsnorm:_get_compiled_fused_add_rmsnorm_quant_kernel"
    return _compile(function, dtype, hidden, weight_bias, strided, pdl, out_dtype_str=_FP8, use_hw_fp8=True)


LAYERNORM = replace(
    RMSNORM,
    op="flashinfer.layernorm",
    arguments=(
        Tensor("out", _MATRIX, role="out"),
        _X,
        Tensor("gamma", ("hidden",), "weight_dtype"),
        Tensor("beta", ("hidden",), "weight_dtype"),
        _ROWS,
        _EPS,
    ),
    names={**NAMES, "mGamma": "gamma", "mBeta": "beta"},
    problems=layernorm_problems,
    reference=layernorm_reference,
    tolerance=fused_tolerance,
    peer=layernorm_peer,
)


@LAYERNORM
def layernorm(dtype: DType, hidden: int, weight_dtype: DType = "float32", pdl: bool = False) -> Any:
    """``layernorm(out, x, gamma, beta, rows, eps)``: layer norm of the rows of a matrix.

    ``out`` and ``x`` are ``[rows, hidden]``, of row strides that 8 divides; ``gamma`` and ``beta`` are ``[hidden]``
    of ``weight_dtype``.
    """
    return library.compiled(
        f"{_NORMS}.layernorm:_get_compiled_layernorm_kernel",
        dtype_str=dtype,
        gamma_dtype_str=weight_dtype,
        H=hidden,
        enable_pdl=pdl,
    )
