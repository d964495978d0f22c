"""FlashInfer's product of block-scaled matrices for GPUs of compute capability 12.x: its ``b12x`` backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.adapters.flashinfer import library
from precast.kernels.adapters.operators import cases
from precast.kernels.adapters.operators.arguments import FORMATS
from precast.kernels.authoring import rounding
from precast.kernels.authoring.declare import GRID, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_COMPILE = "flashinfer.gemm.gemm_mm_fp4_cute_dsl"
_KERNEL = "flashinfer.gemm.kernels.dense_blockscaled_gemm_sm120_b12x"
_TILES = ((64, 64), (64, 128), (128, 64), (128, 128))  # those that the library tries for FP4
_NARROW = ((16, 64), (16, 128), (32, 64), (32, 128))  # for few rows of MXFP8
_ALPHA = 0.5
_UNUSED = ("svdquant_d", "svdquant_l1", "svdquant_bias")  # of a product with a correction of low rank
_NAMES = {
    "mA": "a", "mB": "b", "mC": "out", "sf_m": "a_tiles", "sf_n": "b_tiles", "sf_k": "k_tiles",
    "a_sf_ptr": "a_scale", "b_sf_ptr": "b_scale", "alpha_tensor": "alpha",
}  # fmt: skip


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.FLASHINFER.obstacle() or tile_refusal(config)


def tile_refusal(config: Config) -> str | None:
    """Why a tile is not supported, or None.

    >>> tile_refusal({"format": "nvfp4", "tile": (16, 64)})
    'tile is (16, 64): with nvfp4 use (64, 64), (64, 128), (128, 64), (128, 128)'
    """
    tiles = _TILES + (_NARROW if config["format"] == "mxfp8" else ())
    tile = tuple(configs.integers(config, "tile"))
    return None if tile in tiles else f"tile is {tile}: with {config['format']} use {', '.join(map(str, tiles))}"


def problems(config: Config) -> Sequence[Problem]:
    """One row, edges of tiles, and a large one last."""
    return [{"m": m, "n": n, "k": k} for m, n, k in ((1, 64, 128), (17, 136, 256), (129, 200, 512), (4096, 4096, 4096))]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Random values and scales, and the tiles of scales that they take."""
    import torch

    _, _, block = FORMATS[str(config["format"])]
    m, n, k = (-(-problem[name] // size) for name, size in (("m", 128), ("n", 128), ("k", 4 * block)))
    values = cases.scaled_inputs({**config, "out_major": "n"}, problem, device=device, seed=seed)
    return {
        **{name: values[name] for name in ("a", "b", "out")},
        "a_tiles": m,
        "b_tiles": n,
        "k_tiles": k,
        **{name: values[name] for name in ("a_scale", "b_scale")},
        "alpha": torch.full((1,), _ALPHA, device=device),
        **dict.fromkeys(_UNUSED),
    }


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """``alpha`` times the product in float64."""
    return {"out": cases.scaled_reference(config, values)["out"] * values["alpha"].double()}


def tolerance(config: Config) -> Tolerance:
    """Sums in float32 whose terms cancel, then the rounding to the stored dtype."""
    return Tolerance(rtol=rounding.tolerance(str(config["out_dtype"]), 1e-6).rtol, atol=2.0**-12)


@kernel(
    op="flashinfer.mm_blockscaled",
    imports=[_COMPILE],
    targets=["sm_120a", "sm_121a"],
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    reference=reference,
    tolerance=tolerance,
    special_values=[],  # values and scales are of types without them
    cost=cases.scaled_cost,
    arguments=_NAMES,
    speed_only=GRID,  # a static persistent grid of blocks, none of which waits for another
)
def mm_blockscaled(
    format: Literal["nvfp4", "mxfp4", "mxfp8"],
    out_dtype: DType = "bfloat16",
    pdl: bool = True,
    tile: Tuned[Sequence[int]] = (64, 128),
) -> Any:
    """``mm_blockscaled(a, b, out, a_tiles, b_tiles, k_tiles, a_scale, b_scale, alpha)``.

    ``out`` is ``alpha`` times ``a`` times ``b.T``, each value times its block's scale.

    Values and scales are those of ``gemm_blockscaled``: packed uint8 or float8_e4m3fn, and scales in tiles of 128 rows
    by 4 blocks, passed as addresses (``scales.data_ptr()``): keep the tensors alive. 32 divides ``k``, with MXFP8 128.
    ``a_tiles`` and ``b_tiles`` are the rows of ``a`` and ``b`` over 128, ``k_tiles`` the blocks of a row over 4,
    rounded up. ``alpha`` is one float32. The library's kernel has three more arguments, which are None.
    """
    dtype, scale_dtype, block = FORMATS[format]
    wide = {"mma_k": 32, "tile_k": 128} if format == "mxfp8" else {}
    kernels = library.FLASHINFER.module(_KERNEL)

    def make() -> Any:
        return kernels.Sm120B12xBlockScaledDenseGemmKernel(block, tuple(tile), (1, 1), enable_pdl=pdl, **wide)

    return library.compiled(
        f"{_COMPILE}:_compile_block_scaled_gemm",
        cache={},
        cache_key=None,
        make_gemm_kernel=make,
        ab_cutlass_dtype=to_cutlass(dtype if format == "mxfp8" else "uint8"),
        sf_dtype=to_cutlass(scale_dtype),
        c_cutlass_dtype=to_cutlass(out_dtype),
        ab_assumed_align=32,
        cluster_shape_mn=(1, 1),
        swap_ab=False,
        sf_m=1,
        sf_n=1,
        sf_k=1,
        batch_size=1,
    )
