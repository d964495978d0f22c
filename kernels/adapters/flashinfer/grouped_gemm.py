"""FlashInfer's product of groups of FP8 rows: ``grouped_gemm_fp8``."""

from __future__ import annotations

from typing import Any

from precast.kernels.adapters.first_launch import compiled_until_launch
from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs
from precast.kernels.authoring.declare import GRID, kernel
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_CONTIGUOUS = "flashinfer.gemm.kernels.grouped_gemm_contiguous_blackwell"
_BLOCK = 128  # elements with one scale


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.FLASHINFER.obstacle() or size_refusal(config)


def size_refusal(config: Config) -> str | None:
    """Why the sizes are not some of the library's, or None.

    >>> size_refusal({"n": 4096, "k": 7000, "groups": 8, "rows": 1024})
    'k is 7000, which 128 does not divide: use 6912 or 7040'
    """
    for name in ("n", "k"):
        size = configs.integer(config, name)
        if size < _BLOCK or size % _BLOCK:
            below = size // _BLOCK * _BLOCK
            return f"{name} is {size}, which {_BLOCK} does not divide: use {below} or {below + _BLOCK}"
    if configs.integer(config, "groups") < 1 or configs.integer(config, "rows") < 1:
        return "groups and rows are numbers from 1: correct them"
    return None


@kernel(
    op="flashinfer.grouped_gemm_fp8",
    imports=[_CONTIGUOUS],
    targets=["sm_100a", "sm_103a"],
    supports=supports,
    speed_only=GRID,  # a persistent grid of clusters, none of which waits for another
)
def grouped_gemm_fp8(n: int, k: int, groups: int, rows: int = 4096) -> Any:
    """Rows of FP8 times the matrix of their group: ``a`` ``[m, k]``, ``b`` ``[groups, n, k]``, ``out`` ``[m, n]``
    bfloat16.

    The arguments are those of the library's kernel, by its names: see ``help(loader.get(..))``. ``a`` has a float32
    scale for each row and 128 elements of ``k``, ``b`` for each 128 by 128; the int32 ``m_indices`` has the group of
    each row. The number of rows is known at the call: the library chooses the tile for about ``rows`` of them, and if
    128 divides ``rows``, it must divide the number of rows.
    """
    module = library.FLASHINFER.module(_CONTIGUOUS)

    def launch() -> Any:
        import torch

        def of(*shape: int, dtype: Any = torch.float32) -> Any:
            return torch.empty(shape, dtype=dtype, device="cuda")

        fp8 = torch.float8_e4m3fn
        return module.grouped_gemm_fp8_nt_groupwise_contiguous_sm100(
            of(rows, k, dtype=fp8), of(groups, n, k, dtype=fp8), of(rows, k // _BLOCK),
            of(groups, n // _BLOCK, k // _BLOCK), of(rows, dtype=torch.int32), of(rows, n, dtype=torch.bfloat16),
        )  # fmt: skip

    return compiled_until_launch(launch)
