"""FlashInfer's quantisation: ``nvfp4_quantize`` and ``mxfp8_quantize``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.flashinfer import blocks, library
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import Cost, Problem, kernel
from precast.kernels.authoring.dtypes import bits, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.authoring.row_kernel import row_problems
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_GLOBAL_SCALE = 3.0
_LAYOUTS = {"128x4": 0, "linear": 2}  # the library's numbers for them
_GRID = 512  # blocks to verify it with; results are the same with any number
_ROWS_AT_ONCE = 128


def nvfp4_supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.refusal(config, width="columns", divisor=16)


def mxfp8_supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.refusal(config, width="columns", divisor=32)


def problems(config: Config) -> Sequence[Problem]:
    """Rows that fill their tiles of 128, and rows that do not."""
    return [{"rows": p["rows"]} for p in row_problems(configs.integer(config, "columns"), largest=1 << 23)]


def _scale_shape(config: Config, rows: int, block: int) -> int:
    columns = configs.integer(config, "columns") // block
    return rows * columns if config["layout"] == "linear" else -(-rows // 128) * 128 * (-(-columns // 4) * 4)


def _counts(config: Config, rows: int, block: int, *, both: bool) -> dict[str, int]:
    """The arguments that are not tensors: rows, padded rows or scale blocks, and the number of blocks to launch."""
    if config["layout"] == "linear":
        total = rows * (configs.integer(config, "columns") // block)
        return {**({"rows": rows} if both else {}), "scale_blocks": total, "grid": _GRID}
    return {"rows": rows, "padded_rows": -(-rows // _ROWS_AT_ONCE) * _ROWS_AT_ONCE, "grid": _GRID}


def _bytes(*shape: int, device: Any) -> Any:
    return tensors.empty(shape, "uint8", device=device)


def nvfp4_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Values whose codes and scales are away from every rounding edge, and room for what they become."""
    import torch

    rows, columns = problem["rows"], configs.integer(config, "columns")
    values = blocks.fp4_values(rows, columns, 16, "float8_e4m3fn", device=device, seed=seed) / _GLOBAL_SCALE
    x = values.to(to_torch(str(config["dtype"])))
    arguments = {
        "x": x,
        "out": _bytes(rows, columns // 2, device=device),
        "scales": _bytes(_scale_shape(config, rows, 16), device=device),
        **_counts(config, rows, 16, both=True),
        "global_scale": torch.full((1,), _GLOBAL_SCALE, dtype=torch.float32, device=device),
    }
    return arguments if config["layout"] == "linear" else {**arguments, "pre_quant_scale": x[0]}


def nvfp4_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Quantised in float64; the scales in the config's layout."""
    scale = float(inputs["global_scale"])
    codes, scales = blocks.quantize_fp4(inputs["x"], block=16, scale_dtype="float8_e4m3fn", global_scale=scale)
    return {"out": codes, "scales": _laid_out(config, scales)}


def mxfp8_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Values whose codes and scales are away from every rounding edge, and room for what they become."""
    rows, columns = problem["rows"], configs.integer(config, "columns")
    values = blocks.mxfp8_values(rows, columns, device=device, seed=seed)
    return {
        "x": values.to(to_torch(str(config["dtype"]))),
        "out": _bytes(rows, columns, device=device),
        "scales": _bytes(_scale_shape(config, rows, 32), device=device),
        **_counts(config, rows, 32, both=False),
    }


def mxfp8_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Quantised in float64; the scales in the config's layout."""
    codes, scales = blocks.quantize_mxfp8(inputs["x"])
    return {"out": codes, "scales": _laid_out(config, scales)}


def _laid_out(config: Config, scales: Any) -> Any:
    return scales.flatten() if config["layout"] == "linear" else blocks.swizzled(scales)


def nvfp4_cost(config: Config, problem: Problem) -> Cost:
    """The matrix read once; half a byte an element and a byte a block written."""
    elements = problem["rows"] * configs.integer(config, "columns")
    return Cost(2 * elements, elements * bits(str(config["dtype"])) // 8 + elements // 2 + elements // 16)


def mxfp8_cost(config: Config, problem: Problem) -> Cost:
    """The matrix read once; a byte an element and a byte a block written."""
    elements = problem["rows"] * configs.integer(config, "columns")
    return Cost(2 * elements, elements * bits(str(config["dtype"])) // 8 + elements + elements // 32)


@kernel(
    op="flashinfer.nvfp4_quantize",
    imports=["flashinfer.quantization.kernels.nvfp4_quantize"],
    targets=["sm_100a", "sm_103a", "sm_120a", "sm_121a"],
    supports=nvfp4_supports,
    problems=problems,
    inputs=nvfp4_inputs,
    outputs=["out", "scales"],
    special_values=[],  # their bytes hang on ties, or on a scale of zero
    reference=nvfp4_reference,
    cost=nvfp4_cost,
    arguments={
        "mInput": "x", "mOutput": "out", "mScales": "scales", "M": "rows", "padded_M": "padded_rows",
        "total_sf_blocks": "scale_blocks", "num_blocks": "grid", "mPreQuantScale": "pre_quant_scale",
    },
)  # fmt: skip
def nvfp4_quantize(dtype: DType, columns: int, layout: Literal["128x4", "linear"] = "128x4", pdl: bool = False) -> Any:
    """Rows to NVFP4: ``float4_e2m1fn`` with one ``float8_e4m3fn`` scale for 16 elements.

    Layout 128x4, as ``mm_fp4`` reads it: ``nvfp4_quantize(x, out, scales, rows, padded_rows, grid, global_scale,
    pre_quant_scale)``; ``padded_rows`` is ``rows`` up to a multiple of 128, ``scales`` is flat, ``padded_rows`` times
    the row's blocks up to a multiple of 4, its padding is set to zero, and any row of ``x`` will do for
    ``pre_quant_scale``, which is not read. Linear: ``(x, out, scales, rows, scale_blocks, grid, global_scale)``;
    ``scale_blocks`` is ``rows * columns / 16``, as many as ``scales`` holds.

    ``x`` is ``[rows, columns]`` and contiguous, ``out`` bytes ``[rows, columns / 2]`` with the first of two elements
    low. ``global_scale`` is one float32 on the device: a block's scale is that times its largest element, over 6.
    ``grid`` is how many blocks to launch: 4 for each SM are enough.
    """
    return library.compiled(
        "flashinfer.quantization.kernels.nvfp4_quantize:_get_compiled_kernel_nvfp4",
        dtype_key=dtype,
        K=columns,
        sf_layout=_LAYOUTS[layout],
        enable_pdl=pdl,
    )


@kernel(
    op="flashinfer.mxfp8_quantize",
    imports=["flashinfer.quantization.kernels.mxfp8_quantize"],
    targets=["sm_90+"],
    supports=mxfp8_supports,
    problems=problems,
    inputs=mxfp8_inputs,
    outputs=["out", "scales"],
    special_values=[],  # their bytes hang on ties, or on a scale of zero
    reference=mxfp8_reference,
    cost=mxfp8_cost,
    arguments={
        "mInput": "x", "mOutput": "out", "mScales": "scales", "M": "rows", "padded_M": "padded_rows",
        "total_sf_blocks": "scale_blocks", "num_blocks": "grid",
    },
)  # fmt: skip
def mxfp8_quantize(
    dtype: DType,
    columns: int,
    layout: Literal["128x4", "linear"] = "128x4",
    pdl: bool = False,
    threads_per_scale: Tuned[Literal[2, 4]] = 2,
) -> Any:
    """Rows to MXFP8: ``float8_e4m3fn`` with one power-of-two scale for 32 elements.

    Layout 128x4, as tensor cores read it: ``mxfp8_quantize(x, out, scales, rows, padded_rows, grid)``; ``padded_rows``
    is ``rows`` up to a multiple of 128, ``scales`` is flat, ``padded_rows`` times the row's blocks up to a multiple of
    4, its padding is set to zero. Linear: ``(x, out, scales, scale_blocks, grid)``; ``scale_blocks`` is
    ``rows * columns / 32``, as many as ``scales`` holds.

    ``x`` is ``[rows, columns]`` and contiguous, ``out`` bytes of the same shape. ``grid`` is how many blocks to launch:
    4 for each SM are enough. Two threads for each scale suit large matrices, four suit small ones.
    """
    layouts = {"linear": "linear", "128x4": "swizzled"}
    extra = {} if layout == "linear" else {"sf_layout": _LAYOUTS[layout]}
    return library.compiled(
        f"flashinfer.quantization.kernels.mxfp8_quantize:_get_compiled_kernel_mxfp8_{layouts[layout]}",
        dtype_key={"float16": "fp16", "bfloat16": "bf16"}[dtype],
        K=columns,
        enable_pdl=pdl,
        use_2t_per_sf=threads_per_scale == 2,
        **extra,
    )
