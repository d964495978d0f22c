"""FlashInfer's product of FP4 matrices: ``mm_fp4``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.flashinfer import blocks, library
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_BLOCKS = {"nvfp4": (16, "float8_e4m3fn"), "mxfp4": (32, "float8_e8m0fnu")}
_TILES = ((128, 64), (128, 128), (128, 192), (128, 256), (256, 64), (256, 128), (256, 192), (256, 256))
_NAMES = {
    "mA": "a", "mB": "b", "mC": "out", "sf_m": "a_tiles", "sf_n": "b_tiles", "sf_k": "k_tiles",
    "a_sf_ptr": "a_scales", "b_sf_ptr": "b_scales", "alpha_tensor": "alpha",
}  # fmt: skip


class Address(int):
    """The address of a tensor's data, which keeps the tensor alive."""

    tensor: Any

    @classmethod
    def of(cls, tensor: Any) -> Address:
        """Where a tensor's data lies."""
        pointer = cls(tensor.data_ptr())
        pointer.tensor = tensor
        return pointer


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"out_dtype": "bfloat16", "tile": (128, 100), "cluster": (1, 1)}
    >>> tile_refusal(config)
    'tile is 128 by 100: use one of 128x64, 128x128, 128x192, 128x256, 256x64, 256x128, 256x192, 256x256'
    """
    reason = library.FLASHINFER.obstacle()
    if reason is None and config["out_dtype"] not in library.HALVES:
        reason = f"out_dtype {config['out_dtype']!r} is not supported: use one of {', '.join(library.HALVES)}"
    return reason or tile_refusal(config)


def tile_refusal(config: Config) -> str | None:
    """Why a tile or a cluster is not supported, or None."""
    tile, cluster = _pair(config, "tile"), _pair(config, "cluster")
    if tile not in _TILES:
        return f"tile is {tile[0]} by {tile[1]}: use one of {', '.join(f'{m}x{n}' for m, n in _TILES)}"
    powers = {1, 2, 4}
    if not (set(cluster) <= powers and cluster[0] * cluster[1] <= 16):
        return f"cluster is {cluster[0]} by {cluster[1]}: use 1, 2 or 4 each way"
    if tile[0] == 256 and cluster[0] % 2:
        return f"tile is 256 rows and cluster {cluster[0]}: two blocks share such a tile, use a cluster of 2 or 4 rows"
    return None


def _pair(config: Config, key: str) -> tuple[int, int]:
    value = config[key]
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value):
        return int(str(value[0])), int(str(value[1]))
    return (0, 0)


def problems(config: Config) -> Sequence[Problem]:
    """One row, edges of tiles, a layer of a model, and a large one last."""
    sizes = [(1, 128, 256), (17, 256, 512), (129, 1024, 512), (300, 384, 1536), (512, 4096, 4096), (4096, 4096, 8192)]
    return [{"m": m, "n": n, "k": k} for m, n, k in sizes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Random codes and scales; the scales are in tiles of 128 by 4, and passed by address."""
    import torch

    m, n, k = problem["m"], problem["n"], problem["k"]
    block, scale_dtype = _BLOCKS[str(config["format"])]
    draw = torch.Generator(device="cpu").manual_seed(seed)

    def codes(rows: int) -> Any:
        return torch.randint(0, 256, (rows, k // 2), generator=draw, dtype=torch.uint8).to(device)

    def scales(rows: int) -> Address:
        low, high = (0x30, 0x40) if scale_dtype == "float8_e4m3fn" else (125, 130)  # from 0.5 to 2, and 1/4 to 4
        values = torch.randint(low, high, (rows, k // block), generator=draw, dtype=torch.uint8)
        return Address.of(blocks.swizzled(values).to(device))

    return {
        "a": codes(m),
        "b": codes(n),
        "out": tensors.empty((m, n), str(config["out_dtype"]), device=device),
        "a_tiles": -(-m // 128),
        "b_tiles": -(-n // 128),
        "k_tiles": -(-(k // block) // 4),
        "a_scales": scales(m),
        "b_scales": scales(n),
        "alpha": torch.full((1,), 0.125, dtype=torch.float32, device=device),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The product in float64 of the decoded values."""
    return {"out": _meaning(config, inputs, "a") @ _meaning(config, inputs, "b").T * inputs["alpha"].double()}


def _meaning(config: Config, inputs: Mapping[str, Any], name: str) -> Any:
    import torch

    block, scale_dtype = _BLOCKS[str(config["format"])]
    values = blocks.decode_fp4(inputs[name])
    rows, columns = values.shape
    scales = blocks.unswizzled(inputs[f"{name}_scales"].tensor, rows, columns // block)
    powers = scale_dtype == "float8_e8m0fnu"
    decoded = 2.0 ** (scales.double() - 127) if powers else scales.view(torch.float8_e4m3fn).double()
    return values * decoded.repeat_interleave(block, dim=1)


def tolerance(config: Config) -> Tolerance:
    """A sum in float32 whose terms cancel, then the rounding to the stored dtype."""
    return Tolerance(rtol=rounding.tolerance(str(config["out_dtype"]), 1e-6).rtol, atol=2e-2)


def cost(config: Config, problem: Problem) -> Cost:
    """Two operations for each product; codes and scales read once, the result written once.

    >>> cost({"format": "nvfp4"}, {"m": 128, "n": 128, "k": 128}).flops
    4194304
    """
    m, n, k = problem["m"], problem["n"], problem["k"]
    block, _ = _BLOCKS[str(config["format"])]
    return Cost(2 * m * n * k, (m + n) * (k // 2 + k // block) + 2 * m * n)


@kernel(
    op="flashinfer.mm_fp4",
    imports=["flashinfer.gemm.gemm_mm_fp4_cute_dsl"],
    targets=["sm_100a", "sm_103a"],
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    special_values=["zero"],  # of alpha: the others are bytes
    reference=reference,
    tolerance=tolerance,
    cost=cost,
    arguments=_NAMES,
    speed_only=GRID,  # a static persistent grid of clusters, none of which waits for another
)
def mm_fp4(
    out_dtype: DType,
    format: Literal["nvfp4", "mxfp4"] = "nvfp4",
    pdl: bool = False,
    tile: Tuned[Sequence[int]] = (128, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
    prefetch: Tuned[bool] = False,
) -> Any:
    """``mm_fp4(a, b, out, a_tiles, b_tiles, k_tiles, a_scales, b_scales, alpha)``: ``alpha`` times ``a`` times ``b.T``.

    ``a`` is ``[m, k / 2]`` and ``b`` ``[n, k / 2]``, bytes of two ``float4_e2m1fn`` with the first low, at addresses
    that 32 divides; ``out`` is ``[m, n]`` of ``out_dtype``. All are contiguous; 64 divides ``k``, and 8 ``n``. NVFP4
    has an e4m3 scale for 16 elements, MXFP4 a power of two for 32, both in the layout 128x4 of ``nvfp4_quantize``, and
    passed as addresses (``scales.data_ptr()``): keep the tensors alive. ``a_tiles`` and ``b_tiles`` are the rows of
    ``a`` and ``b`` over 128, ``k_tiles`` the blocks of a row over 4, all rounded up. ``alpha`` is one float32.
    """
    block, scale_dtype = _BLOCKS[format]
    kernels = library.FLASHINFER.module("flashinfer.gemm.kernels.dense_blockscaled_gemm_sm100")

    def make() -> Any:
        return kernels.Sm100BlockScaledPersistentDenseGemmKernel(
            block, tuple(tile), tuple(cluster), use_prefetch=prefetch, enable_pdl=pdl
        )

    return library.compiled(
        "flashinfer.gemm.gemm_mm_fp4_cute_dsl:_compile_block_scaled_gemm",
        cache={},
        cache_key=None,
        make_gemm_kernel=make,
        ab_cutlass_dtype=to_cutlass("uint8"),
        sf_dtype=to_cutlass(scale_dtype),
        c_cutlass_dtype=to_cutlass(out_dtype),
        ab_assumed_align=32,
        cluster_shape_mn=tuple(cluster),
        swap_ab=False,
        sf_m=1,
        sf_n=1,
        sf_k=1,
        batch_size=1,
    )
