"""NVIDIA's example of products of groups for Blackwell, whose type hint of the groups' sizes is that of one group."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any


def run(
    sizes: Sequence[Sequence[int]],
    dtype: str = "float16",
    tile: Sequence[int] = (128, 128),
    cluster: Sequence[int] = (1, 1),
    two_cta: bool = False,
) -> Any:
    """Products of groups with (m, n, k, 1) ``sizes``, which the kernel reads on the device; all are k-major."""
    import cutlass
    from cutlass.utils import TensorMapUpdateMode

    kind: Any = {"float16": cutlass.Float16, "bfloat16": cutlass.BFloat16}[dtype]
    run = import_module("cute.blackwell.kernel.grouped_gemm.grouped_gemm").run  # of the folder in the manifest's path
    return run(
        num_groups=len(sizes),
        problem_sizes_mnkl=[tuple(size) for size in sizes],
        host_problem_shape_available=False,
        ab_dtype=kind,
        c_dtype=kind,
        acc_dtype=cutlass.Float32,
        a_major="k",
        b_major="k",
        c_major="n",
        mma_tiler_mn=tuple(tile),
        cluster_shape_mn=tuple(cluster),
        use_2cta_instrs=two_cta,
        tensormap_update_mode=TensorMapUpdateMode.SMEM,
        tolerance=0.1,
        warmup_iterations=0,
        iterations=1,
        skip_ref_check=False,
    )
