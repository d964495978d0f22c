"""FlashInfer's kernels for several GPUs on one NVLink: ``all_reduce_publish``, ``all_reduce_norm``,
``gemm_all_reduce``.

A sum over GPUs is two launches: each GPU writes its part into all mailboxes at once, through an address of multicast
memory; then each sums what its own mailbox holds. What makes the mailboxes, and gives their addresses, is the
library's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs
from precast.kernels.authoring.declare import kernel
from precast.kernels.authoring.dtypes import to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.format.config import Config
from precast.loader.format.target import Target

_PROTOCOL = "flashinfer.comm.mnnvl_cutedsl.kernel_ll.protocol"
_GEMM = "flashinfer.cute_dsl.gemm_allreduce_two_shot"
_TARGETS = ("sm_100a", "sm_103a")


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.FLASHINFER.obstacle() or ranks_refusal(config)


def ranks_refusal(config: Config) -> str | None:
    """Why the GPUs are not some that the kernels know, or None.

    >>> ranks_refusal({"ranks": 4, "rank": 4})
    'rank is 4 of 4 ranks: use a number from 0 to 3'
    """
    ranks = configs.integer(config, "ranks")
    if ranks not in (2, 4, 8):
        return f"ranks is {ranks}: use 2, 4 or 8"
    if "rank" in config and not 0 <= configs.integer(config, "rank") < ranks:
        return f"rank is {config['rank']} of {ranks} ranks: use a number from 0 to {ranks - 1}"
    return None


@kernel(op="flashinfer.all_reduce_publish", imports=[_PROTOCOL], targets=_TARGETS, supports=supports)
def all_reduce_publish(
    hidden: int, ranks: int, rank: int, most_rows: int = 64, pdl: bool = False, threads: Tuned[int] = 128
) -> Any:
    """The first launch of a sum: one GPU's rows of bfloat16, into the mailboxes of all.

    The arguments are those of the library's kernel, by its names: see ``help(loader.get(..))``.
    """
    return library.compiled(
        f"{_PROTOCOL}:compile_shared_only_publish",
        hidden=hidden,
        tp=ranks,
        rank=rank,
        capacity_m=most_rows,
        elements_per_thread=8,
        threads=threads,
        release_before_store=False,
        enable_pdl=pdl,
    )


@kernel(op="flashinfer.all_reduce_norm", imports=[_PROTOCOL], targets=_TARGETS, supports=supports)
def all_reduce_norm(
    hidden: int,
    ranks: int,
    most_rows: int = 64,
    residual: bool = True,
    eps: float = 1e-6,
    weight_bias: float = 0.0,
    pdl: bool = False,
    cluster: Tuned[int] = 8,
    threads: Tuned[int] = 128,
) -> Any:
    """The second launch of a sum: what the mailbox holds, with ``residual`` that added and kept, and its norm.

    The arguments are those of the library's kernel, by its names: see ``help(loader.get(..))``.
    """
    protocol = library.FLASHINFER.module(_PROTOCOL)
    # The method takes these from its object, which cannot be made without the other GPUs.
    fields = SimpleNamespace(
        hidden_size=hidden, tp_size=ranks, capacity_m=most_rows, rms_epsilon=eps, weight_bias=weight_bias,
        add_residual=residual, write_residual_output=residual, apply_rms_norm=True, dynamic_fp8=False,
        write_norm_output=False, output_dtype=to_torch("bfloat16"),
    )  # fmt: skip
    tuning = protocol.LLCollectiveTuning(cluster_size=cluster, threads=threads, enable_pdl=pdl)
    return protocol.LLProtocol._compile_collective(fields, tuning)


@kernel(op="flashinfer.gemm_all_reduce", imports=[_GEMM], targets=_TARGETS, supports=supports)
def gemm_all_reduce(
    dtype: DType,
    ranks: int,
    rank: int,
    tile: Tuned[Sequence[int]] = (128, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
) -> Any:
    """A product of matrices, summed over GPUs: each tile as soon as all have it.

    The arguments are those of the library's kernel, by its names: see ``help(loader.get(..))``. ``a`` is ``[m, k,
    1]``, ``b`` ``[n, k, 1]`` and ``c`` ``[m, n, 1]``; ``c_mc`` is the multicast address of ``c`` of all GPUs, and the
    two flags are int32, one for each tile and one more for each multiprocessor.
    """
    import cutlass.cute as cute
    import torch.distributed
    from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

    make = library.FLASHINFER.module(_GEMM).PersistentDenseGemmKernel
    with patch.multiple(torch.distributed, get_world_size=lambda: ranks, get_rank=lambda: rank):
        product = make(to_cutlass("float32"), False, tuple(tile), tuple(cluster), True, all_reduce="two_shot")

    def matrix() -> Any:
        row = cute.sym_int64(divisibility=8)
        shape = (cute.sym_int(), cute.sym_int(), 1)
        return make_fake_tensor(to_cutlass(dtype), shape, stride=(row, 1, cute.sym_int64()), assumed_align=16)

    def flags() -> Any:
        return make_fake_tensor(to_cutlass("int32"), (cute.sym_int(),), stride=(1,), assumed_align=4)

    clusters = library.FLASHINFER.module("flashinfer.cute_dsl.utils").get_max_active_clusters(cluster[0] * cluster[1])
    a, b, out, all_out = (matrix() for _ in range(4))
    return cute.compile(
        product, a, b, out, clusters, make_fake_stream(), c_mc=all_out, barrier_flag=flags(), barrier_flag_mc=flags()
    )
