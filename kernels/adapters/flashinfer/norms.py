"""FlashInfer's norms: ``rmsnorm``, ``fused_add_rmsnorm`` and ``layernorm``, and those that store FP8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits
from precast.kernels.authoring.hints import DType
from precast.loader.format.config import Config
from precast.loader.format.target import Target

_NORMS = "flashinfer.norm.kernels"
_EPS = 1e-6
_SCALE = 1 / 32
_FP8 = "float8_e4m3fn"
NAMES = {"mX": "x", "mW": "weight", "mY": "out", "mR": "residual", "mS": "scale", "M": "rows"}


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.refusal(config)


def supports_fp8(config: Config, target: Target) -> str | None:
    """The same, for rows that are stored in FP8: 16 bytes hold twice as many."""
    return library.refusal(config, divisor=16)


def problems(config: Config) -> Sequence[Problem]:
    """Rows by themselves, and where the config allows it rows that stand apart."""
    pad = 16 if config.get("strided") else 0
    return library.row_problems(configs.integer(config, "hidden"), pad=pad)


def _matrix(config: Config, problem: Problem, *, device: Any, seed: int | None, dtype: str = "") -> Any:
    dtype = dtype or str(config["dtype"])
    hidden = configs.integer(config, "hidden")
    shape, stride = (problem["rows"], hidden), hidden + problem["padding"]
    if seed is None:
        return tensors.empty(shape, dtype, device=device, row_stride=stride)
    return tensors.normal(shape, dtype, device=device, seed=seed, row_stride=stride)


def _row(config: Config, *, device: Any, seed: int, dtype: str = "") -> Any:
    width = configs.integer(config, "hidden")
    return tensors.normal((width,), dtype or str(config["dtype"]), device=device, seed=seed)


def _scale(device: Any) -> Any:
    import torch

    return torch.full((1,), _SCALE, dtype=torch.float32, device=device)


def rmsnorm_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, ``weight``, ``out``, the number of rows and ``eps``."""
    return {
        "x": _matrix(config, problem, device=device, seed=seed),
        "weight": _row(config, device=device, seed=seed + 1),
        "out": _matrix(config, problem, device=device, seed=None),
        "rows": problem["rows"],
        "eps": _EPS,
    }


def fp8_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """The same, with ``out`` of FP8 and a scale."""
    return {
        "x": _matrix(config, problem, device=device, seed=seed),
        "weight": _row(config, device=device, seed=seed + 1),
        "out": _matrix(config, problem, device=device, seed=None, dtype=_FP8),
        "rows": problem["rows"],
        "scale": _scale(device),
        "eps": _EPS,
    }


def fused_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x`` and ``residual``, which are both read and written."""
    return {
        "x": _matrix(config, problem, device=device, seed=seed),
        "residual": _matrix(config, problem, device=device, seed=seed + 2),
        "weight": _row(config, device=device, seed=seed + 1),
        "rows": problem["rows"],
        "eps": _EPS,
    }


def fused_fp8_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``out`` of FP8 first, then what is read."""
    return {
        "out": _matrix(config, problem, device=device, seed=None, dtype=_FP8),
        "x": _matrix(config, problem, device=device, seed=seed),
        "residual": _matrix(config, problem, device=device, seed=seed + 2),
        "weight": _row(config, device=device, seed=seed + 1),
        "rows": problem["rows"],
        "scale": _scale(device),
        "eps": _EPS,
    }


def layernorm_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``out`` and ``x``, then gamma and beta of their own dtype."""
    weight = str(config["weight_dtype"])
    return {
        "out": _matrix(config, problem, device=device, seed=None),
        "x": _matrix(config, problem, device=device, seed=seed),
        "gamma": _row(config, device=device, seed=seed + 1, dtype=weight),
        "beta": _row(config, device=device, seed=seed + 2, dtype=weight),
        "rows": problem["rows"],
        "eps": _EPS,
    }


def _normalised(x: Any, config: Config, inputs: Mapping[str, Any]) -> Any:
    weight = inputs["weight"].double() + float(str(config["weight_bias"]))
    return x * (x.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt() * weight


def rmsnorm_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64."""
    return {"out": _normalised(inputs["x"].double(), config, inputs)}


def fp8_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64, divided by the scale and held to what FP8 can store."""
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


def tolerance(config: Config) -> Tolerance:
    """A sum in float32, an approximate root, and the rounding to the stored dtype."""
    return rounding.tolerance(str(config["dtype"]), 8e-6)


def fused_tolerance(config: Config) -> Tolerance:
    """The same; a sum of two halves that nearly cancel is exact, and its norm as exact as its largest term."""
    return Tolerance(rtol=tolerance(config).rtol, atol=4e-6)


def fp8_tolerance(config: Config) -> Tolerance:
    """Half a unit in the last place of FP8, a little for arithmetic in float32, and half its smallest step."""
    return Tolerance(rtol=2.0**-4 + 2.0**-10, atol=2.0**-10 * 1.01)


def cost(config: Config, problem: Problem) -> Cost:
    """The matrix read once and written once, the weights read once."""
    return _traffic(config, problem, matrices=2)


def fused_cost(config: Config, problem: Problem) -> Cost:
    """Two matrices read once and written once, the weights read once."""
    return _traffic(config, problem, matrices=4)


def _traffic(config: Config, problem: Problem, *, matrices: int) -> Cost:
    hidden = configs.integer(config, "hidden")
    elements = problem["rows"] * hidden
    return Cost(4 * elements, (matrices * elements + hidden) * bits(str(config["dtype"])) // 8)


@kernel(
    op="flashinfer.rmsnorm",
    targets=["sm_80+"],
    supports=supports,
    problems=problems,
    inputs=rmsnorm_inputs,
    outputs=["out"],
    reference=rmsnorm_reference,
    tolerance=tolerance,
    cost=cost,
    arguments=NAMES,
)
def rmsnorm(dtype: DType, hidden: int, weight_bias: float = 0.0, strided: bool = False, pdl: bool = False) -> Any:
    """``rmsnorm(x, weight, out, rows, eps)``: root-mean-square norm of the rows of a matrix.

    ``x`` and ``out`` are ``[rows, hidden]`` and contiguous, or with ``strided`` of row strides that 8 divides;
    ``weight`` is ``[hidden]``. ``weight_bias`` is added to the weight (1.0 in Gemma). ``pdl`` lets the launch overlap
    the kernel before it.
    """
    return library.compiled(
        f"{_NORMS}.rmsnorm:_get_compiled_rmsnorm_kernel",
        dtype_str=dtype,
        H=hidden,
        weight_bias=weight_bias,
        enable_pdl=pdl,
        sm_version=library.sm_version(),
        contiguous=not strided,
    )


@kernel(
    op="flashinfer.fused_add_rmsnorm",
    targets=["sm_80+"],
    supports=supports,
    problems=problems,
    inputs=fused_inputs,
    outputs=["x", "residual"],
    in_place=["x", "residual"],
    reference=fused_reference,
    tolerance=fused_tolerance,
    cost=fused_cost,
    arguments=NAMES,
)
def fused_add_rmsnorm(
    dtype: DType, hidden: int, weight_bias: float = 0.0, strided: bool = False, pdl: bool = False
) -> Any:
    """``fused_add_rmsnorm(x, residual, weight, rows, eps)``: in place, ``residual += x``, then ``x = norm(residual)``.

    ``x`` and ``residual`` are ``[rows, hidden]`` and contiguous, or with ``strided`` of row strides that 8 divides;
    ``weight`` is ``[hidden]``. The norm is of the sum before it is rounded.
    """
    return library.compiled(
        f"{_NORMS}.fused_add_rmsnorm:_get_compiled_fused_add_rmsnorm_kernel",
        dtype_str=dtype,
        H=hidden,
        weight_bias=weight_bias,
        enable_pdl=pdl,
        sm_version=library.sm_version(),
        contiguous=not strided,
    )


@kernel(
    op="flashinfer.rmsnorm_fp8",
    targets=["sm_89+"],
    supports=supports_fp8,
    problems=problems,
    inputs=fp8_inputs,
    outputs=["out"],
    reference=fp8_reference,
    tolerance=fp8_tolerance,
    cost=cost,
    arguments=NAMES,
)
def rmsnorm_fp8(dtype: DType, hidden: int, weight_bias: float = 0.0, strided: bool = False, pdl: bool = False) -> Any:
    """``rmsnorm_fp8(x, weight, out, rows, scale, eps)``: the norm over ``scale``, stored as ``float8_e4m3fn``.

    ``x`` and ``out`` are ``[rows, hidden]`` and contiguous, or with ``strided`` of row strides that 8 divides;
    ``weight`` is ``[hidden]``, and ``scale`` one float32 on the device. Values beyond 448 are held to it.
    """
    return library.compiled(
        f"{_NORMS}.rmsnorm:_get_compiled_rmsnorm_quant_kernel",
        dtype_str=dtype,
        out_dtype_str=_FP8,
        H=hidden,
        weight_bias=weight_bias,
        enable_pdl=pdl,
        use_hw_fp8=True,
        sm_version=library.sm_version(),
        contiguous=not strided,
    )


@kernel(
    op="flashinfer.fused_add_rmsnorm_fp8",
    targets=["sm_89+"],
    supports=supports_fp8,
    problems=problems,
    inputs=fused_fp8_inputs,
    outputs=["out", "residual"],
    in_place=["residual"],
    reference=fp8_reference,
    tolerance=fp8_tolerance,
    cost=fused_cost,
    arguments=NAMES,
)
def fused_add_rmsnorm_fp8(
    dtype: DType, hidden: int, weight_bias: float = 0.0, strided: bool = False, pdl: bool = False
) -> Any:
    """``fused_add_rmsnorm_fp8(out, x, residual, weight, rows, scale, eps)``: ``residual += x``, and its norm as FP8.

    ``out``, ``x`` and ``residual`` are ``[rows, hidden]`` and contiguous, or with ``strided`` of row strides that 8
    divides; ``weight`` is ``[hidden]``, and ``scale`` one float32 on the device, by which the norm is divided.
    """
    return library.compiled(
        f"{_NORMS}.fused_add_rmsnorm:_get_compiled_fused_add_rmsnorm_quant_kernel",
        dtype_str=dtype,
        out_dtype_str=_FP8,
        H=hidden,
        weight_bias=weight_bias,
        enable_pdl=pdl,
        use_hw_fp8=True,
        sm_version=library.sm_version(),
        contiguous=not strided,
    )


@kernel(
    op="flashinfer.layernorm",
    targets=["sm_80+"],
    supports=supports,
    problems=lambda config: library.row_problems(configs.integer(config, "hidden"), pad=8),
    inputs=layernorm_inputs,
    outputs=["out"],
    reference=layernorm_reference,
    tolerance=fused_tolerance,
    cost=cost,
    arguments={**NAMES, "mGamma": "gamma", "mBeta": "beta"},
)
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
