"""FlashInfer's norms that store FP4: ``rmsnorm_fp4`` and ``add_rmsnorm_fp4``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.flashinfer import blocks, library
from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.authoring.row_kernel import row_problems
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_BLOCKS = {"nvfp4": (16, "float8_e4m3fn"), "mxfp4": (32, "float8_e8m0fnu")}
_TARGETS = ("sm_100a", "sm_103a", "sm_120a", "sm_121a")
_NAMES = {
    "mX": "x", "mR": "residual", "mW": "weight", "mY": "out", "mS": "scales", "mS_unswizzled": "linear_scales",
    "mYNorm": "norm", "mGlobalScale": "global_scale", "M": "rows",
}  # fmt: skip


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    block, _ = _BLOCKS[str(config["format"])]
    reason = library.refusal(config, divisor=block)
    if reason is None and configs.integer(config, "hidden") < 64:
        reason = f"hidden is {config['hidden']}: use 64 or more"
    return reason


def problems(config: Config) -> Sequence[Problem]:
    """Any number of rows; whole tiles of 128 where scales are swizzled, since the padding of others is not written."""
    cases = row_problems(configs.integer(config, "hidden"), largest=1 << 23)
    if config["layout"] == "linear":
        return [{"rows": p["rows"]} for p in cases]
    return [{"rows": 128}, {"rows": 256}, {"rows": 1024}]


def _values(config: Config, rows: int, *, device: Any, seed: int) -> tuple[Any, Any, float]:
    """What is normed, the weights, and a power of two that makes its mean square a part of one.

    With the difference to one as ``eps``, the norm divides by nearly one, so that no value crosses a rounding edge.
    """
    import torch

    hidden = configs.integer(config, "hidden")
    block, scale_dtype = _BLOCKS[str(config["format"])]
    exact = blocks.fp4_values(rows, hidden, block, scale_dtype, device=device, seed=seed)
    draw = torch.Generator(device="cpu").manual_seed(seed + 1)
    weight = (2.0 ** -torch.randint(0, 2, (hidden,), generator=draw).double()).to(device)
    spread = exact / weight
    factor = 2.0 ** float((0.5 * torch.log2(0.75 / spread.square().mean())).floor())
    return spread * factor, weight, factor


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Values whose norms are away from every rounding edge, and room for what they become."""
    return _inputs(config, problem["rows"], added=False, device=device, seed=seed)


def added_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """The same values, as the sum of ``x`` and ``residual``."""
    return _inputs(config, problem["rows"], added=True, device=device, seed=seed)


def _inputs(config: Config, rows: int, *, added: bool, device: Any, seed: int) -> dict[str, Any]:
    import torch

    dtype, hidden = to_torch(str(config["dtype"])), configs.integer(config, "hidden")
    block, _ = _BLOCKS[str(config["format"])]
    values, weight, factor = _values(config, rows, device=device, seed=seed)
    total = values.to(dtype)
    linear = config["layout"] == "linear"
    shape = (rows, hidden // block) if linear else (-(-rows // 128) * 128 * (-(-(hidden // block) // 4) * 4),)
    arguments = {"x": -total, "residual": 2 * total} if added else {"x": total}
    arguments |= {
        "weight": weight.to(dtype),
        "out": tensors.empty((rows, hidden // 2), "uint8", device=device),
        "scales": tensors.empty(shape, "uint8", device=device),
    }
    if added:
        arguments["linear_scales"] = tensors.empty((rows, hidden // block), "uint8", device=device)
        arguments["norm"] = tensors.empty(
            (rows * hidden if config["norm"] else 8,), str(config["dtype"]), device=device
        )
    scale = torch.full((1,), 1 / factor, dtype=torch.float32, device=device)
    return {**arguments, "global_scale": scale, "rows": rows, "eps": 1.0 - float(values.square().mean())}


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm and its quantisation in float64."""
    total = inputs["x"].double() + (inputs["residual"].double() if "residual" in inputs else 0.0)
    normed = total * (total.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt() * inputs["weight"].double()
    block, scale_dtype = _BLOCKS[str(config["format"])]
    codes, scales = blocks.quantize_fp4(
        normed, block=block, scale_dtype=scale_dtype, global_scale=float(inputs["global_scale"])
    )
    laid_out = scales if config["layout"] == "linear" else blocks.swizzled(scales)
    return {"out": codes, "scales": laid_out, "residual": total}


def tolerance(config: Config) -> Tolerance:
    """For the residual, which is rounded once; bytes must be equal."""
    return rounding.tolerance(str(config["dtype"]), 0.0)


def cost(config: Config, problem: Problem) -> Cost:
    """The matrix read once; half a byte an element and a byte a block written."""
    return _traffic(config, problem, matrices=1)


def added_cost(config: Config, problem: Problem) -> Cost:
    """Two matrices read and one written besides."""
    return _traffic(config, problem, matrices=3)


def _traffic(config: Config, problem: Problem, *, matrices: int) -> Cost:
    block, _ = _BLOCKS[str(config["format"])]
    elements = problem["rows"] * configs.integer(config, "hidden")
    stored = matrices * elements * bits(str(config["dtype"])) // 8
    return Cost(6 * elements, stored + elements // 2 + elements // block)


@kernel(
    op="flashinfer.rmsnorm_fp4",
    imports=["flashinfer.cute_dsl.rmsnorm_fp4quant"],
    targets=_TARGETS,
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out", "scales"],
    special_values=[],  # their bytes hang on ties, or on a scale of zero
    reference=reference,
    cost=cost,
    arguments=_NAMES,
)
def rmsnorm_fp4(
    dtype: DType,
    hidden: int,
    format: Literal["nvfp4", "mxfp4"] = "nvfp4",
    layout: Literal["128x4", "linear"] = "128x4",
    pdl: bool = False,
) -> Any:
    """``rmsnorm_fp4(x, weight, out, scales, global_scale, rows, eps)``: a norm, stored as blocks of ``float4_e2m1fn``.

    ``x`` is ``[rows, hidden]`` and contiguous, ``weight`` ``[hidden]``, ``out`` bytes ``[rows, hidden / 2]`` with the
    first of two elements low. NVFP4 has an e4m3 scale for 16 elements: ``global_scale``, one float32 on the device,
    times the largest over 6. MXFP4 has a power of two for 32. ``scales`` are bytes: linear, ``[rows, blocks]``;
    128x4, as ``mm_fp4`` reads them, flat over whole tiles, of which the padding is not written.
    """
    block, scale = _BLOCKS[format]
    return library.compiled(
        "flashinfer.cute_dsl.rmsnorm_fp4quant:_get_compiled_kernel",
        hidden_size=hidden,
        block_size=block,
        is_fp16=dtype == "float16",
        sm_version=library.sm_version(),
        scale_format="e4m3" if scale == "float8_e4m3fn" else "ue8m0",
        is_sf_swizzled_layout=layout == "128x4",
        enable_pdl=pdl,
    )


@kernel(
    op="flashinfer.add_rmsnorm_fp4",
    imports=["flashinfer.cute_dsl.add_rmsnorm_fp4quant"],
    targets=_TARGETS,
    supports=supports,
    problems=problems,
    inputs=added_inputs,
    outputs=["out", "scales", "residual"],
    in_place=["residual"],
    workspace=["norm"],  # the norm before it is rounded to codes, which "out" is compared for
    special_values=[],
    reference=reference,
    tolerance=tolerance,
    cost=added_cost,
    arguments=_NAMES,
)
def add_rmsnorm_fp4(
    dtype: DType,
    hidden: int,
    format: Literal["nvfp4", "mxfp4"] = "nvfp4",
    layout: Literal["128x4", "linear"] = "128x4",
    norm: bool = False,
    pdl: bool = False,
    for_rows: Tuned[int] = 128,
) -> Any:
    """``add_rmsnorm_fp4(x, residual, weight, out, scales, linear_scales, norm, global_scale, rows, eps)``.

    In place ``residual += x``; its norm is stored as in ``rmsnorm_fp4``, and with ``norm`` also in ``norm``, flat and
    of ``dtype``. ``linear_scales`` ``[rows, blocks]`` is not written, nor is ``norm`` without ``norm``: give it 8
    elements. ``for_rows`` is how many rows the launch is shaped for; any number of them is right.
    """
    block, scale = _BLOCKS[format]
    kernels = library.FLASHINFER.module("flashinfer.cute_dsl.add_rmsnorm_fp4quant")
    launch = kernels.AddRMSNormFP4QuantKernel._compute_launch_config(
        hidden, for_rows, to_cutlass(dtype), library.sm_version()
    )
    return library.compiled(
        "flashinfer.cute_dsl.add_rmsnorm_fp4quant:_get_compiled_kernel",
        hidden_size=hidden,
        block_size=block,
        is_fp16=dtype == "float16",
        sm_version=library.sm_version(),
        scale_format="e4m3" if scale == "float8_e4m3fn" else "ue8m0",
        is_sf_swizzled_layout=layout == "128x4",
        launch_config=launch,
        enable_pdl=pdl,
        output_norm=norm,
    )
