"""FlashInfer's kernels for several GPUs on one NVLink: sums of rows and their norms, gathered columns, a product.

A sum over GPUs is two launches: each GPU writes its part into all mailboxes at once, through an address of multicast
memory (``.._publish``); then each sums what its own mailbox holds. For many rows it is three (``all_reduce_rows``), or
one that stays (``all_reduce_persistent``). What makes the mailboxes, and gives their addresses, is the library's own.
The arguments of each op are those of the library's kernel, by its names: see ``help(loader.get(..))``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Literal

from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs
from precast.kernels.authoring.declare import kernel
from precast.kernels.authoring.dtypes import to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_MNNVL = "flashinfer.comm.mnnvl_cutedsl"
_PROTOCOL = f"{_MNNVL}.kernel_ll.protocol"
_ROWS = f"{_MNNVL}.kernel_bt.protocol"
_PERSISTENT = f"{_MNNVL}.kernel_ht.protocol"
_DUAL_NORM = f"{_MNNVL}.kernel_ll.all_gather_dual_norm"
_NORM_QUANT = f"{_MNNVL}.kernel_ll.all_gather_norm_quant"
_EXPERTS = f"{_MNNVL}.kernel_ll.moe_finalize_norm_all_reduce"
_GEMM = "flashinfer.cute_dsl.gemm_allreduce_two_shot"
_TARGETS = ("sm_100a", "sm_103a")


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.FLASHINFER.obstacle() or ranks_refusal(config)


def supports_persistent(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return supports(config, target) or threads_refusal(config)


def supports_gather(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return supports(config, target) or library.width_refusal("hidden", configs.integer(config, "hidden"), 1024)


def threads_refusal(config: Config) -> str | None:
    """Why the threads of a block do not share a row evenly, or None.

    >>> threads_refusal({"hidden": 7168, "threads": 512, "vectors": 2})
    'hidden is 7168, which 8 * 512 threads * 2 vectors do not divide: use threads 448'
    """
    hidden, threads, vectors = (configs.integer(config, key) for key in ("hidden", "threads", "vectors"))
    if hidden % (8 * threads * vectors) == 0:
        return None
    fits = [n for n in range(32, 1025, 32) if hidden % (8 * n * vectors) == 0]
    use = f"use threads {fits[-1]}" if fits else "use fewer vectors, or a hidden that 256 divides"
    return f"hidden is {hidden}, which 8 * {threads} threads * {vectors} vectors do not divide: {use}"


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


def _compiler(library_class: Any, **fields: Any) -> Any:
    """An object of a library's class that only compiles: the class's own initializer connects to the other GPUs."""

    class Compiler(library_class):  # type: ignore[misc]
        def __init__(self) -> None:
            self.__dict__.update(fields)

    return Compiler()


def _fields(
    hidden: int,
    ranks: int,
    rank: int,
    most_rows: int,
    residual: bool = False,
    eps: float = 0.0,
    weight_bias: float = 0.0,
) -> dict[str, Any]:
    """The attributes that the library's compile methods read, by its names."""
    return {
        "hidden_size": hidden, "tp_size": ranks, "rank": rank, "capacity_m": most_rows, "rms_epsilon": eps,
        "weight_bias": weight_bias, "add_residual": residual, "write_residual_output": residual,
        "apply_rms_norm": True, "dynamic_fp8": False, "write_norm_output": False, "output_dtype": to_torch("bfloat16"),
    }  # fmt: skip


@contextmanager
def _process_group(ranks: int, rank: int) -> Iterator[None]:
    """``torch.distributed`` as one of ``ranks`` processes sees it. torch's fake backend sends nothing to anyone."""
    import torch.distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


@kernel(op="flashinfer.all_reduce_publish", imports=[_PROTOCOL], targets=_TARGETS, supports=supports)
def all_reduce_publish(
    hidden: int, ranks: int, rank: int, most_rows: int = 64, pdl: bool = False, threads: Tuned[int] = 128
) -> Any:
    """The first launch of a sum: one GPU's rows of bfloat16, into the mailboxes of all."""
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
    """The second launch of a sum: what the mailbox holds, with ``residual`` that added and kept, and its norm."""
    protocol = library.FLASHINFER.module(_PROTOCOL)
    fields = _fields(hidden, ranks, 0, most_rows, residual, eps, weight_bias)
    tuning = protocol.LLCollectiveTuning(cluster_size=cluster, threads=threads, enable_pdl=pdl)
    return _compiler(protocol.LLProtocol, **fields)._compile_collective(tuning)


@kernel(op="flashinfer.all_reduce_two_shot", imports=[_PROTOCOL], targets=_TARGETS, supports=supports)
def all_reduce_two_shot(
    hidden: int,
    ranks: int,
    rank: int,
    most_rows: int = 64,
    residual: bool = True,
    eps: float = 1e-6,
    weight_bias: float = 0.0,
    pdl: bool = False,
    cluster: Tuned[int] = 8,
    threads: Tuned[int] = 128,
) -> Any:
    """A sum and its norm in one launch: each GPU sums some rows, and sends them to all."""
    protocol = library.FLASHINFER.module(_PROTOCOL)
    fields = _fields(hidden, ranks, rank, most_rows, residual, eps, weight_bias)
    tuning = protocol.LLCollectiveTuning(cluster_size=cluster, threads=threads, enable_pdl=pdl)
    return _compiler(protocol.LLProtocol, **fields)._compile_two_shot(tuning, most_rows)


@kernel(op="flashinfer.finalize_publish", imports=[_PROTOCOL], targets=_TARGETS, supports=supports)
def finalize_publish(
    hidden: int,
    ranks: int,
    rank: int,
    top_k: int,
    most_rows: int = 64,
    shared_expert: bool = True,
    routed_scale: float = 1.0,
    pdl: bool = False,
    elements: Tuned[Literal[1, 4]] = 4,
    threads: Tuned[int] = 128,
) -> Any:
    """The first launch of a sum behind experts: what those of a token found, weighted and added, into all mailboxes."""
    protocol = library.FLASHINFER.module(_PROTOCOL)
    fields = _fields(hidden, ranks, rank, most_rows)
    experts = {"top_k": top_k, "include_shared_expert": shared_expert, "routed_scaling_factor": routed_scale}
    tuning = protocol.LLFinalizeTuning(
        elements_per_thread=elements, threads=threads, collective=protocol.LLCollectiveTuning(enable_pdl=pdl)
    )
    return _compiler(protocol.LLProtocol, **fields, **experts)._compile_finalize(tuning)


@kernel(op="flashinfer.finalize_norm_publish", imports=[_EXPERTS], targets=_TARGETS, supports=supports)
def finalize_norm_publish(
    hidden: int,
    ranks: int,
    rank: int,
    top_k: int,
    most_rows: int = 64,
    weight_before_norm: bool = False,
    eps: float = 1e-6,
    gain: float = 0.0,
    pdl: bool = False,
    threads: Tuned[int] = 128,
) -> Any:
    """The first launch of a sum behind experts, with a norm of what each of them found."""
    experts = library.FLASHINFER.module(_EXPERTS).LLMoEFinalizeNormAllReduce
    fields = _fields(hidden, ranks, rank, most_rows)
    own = _compiler(experts, **fields, topk=top_k, threads=threads, enable_pdl=pdl, _publishers={})
    return own.publisher(
        row_stride=hidden,
        weight_dtype=to_torch("bfloat16"),
        weight_before_norm=weight_before_norm,
        eps=eps,
        gain_center=gain,
    )


@kernel(op="flashinfer.all_gather_dual_norm", imports=[_DUAL_NORM], targets=_TARGETS, supports=supports_gather)
def all_gather_dual_norm(
    hidden: int, ranks: int, most_rows: int = 64, eps: float = 1e-6, post_weight: bool = True, pdl: bool = False
) -> Any:
    """Columns of all GPUs behind ``all_reduce_publish``, the norm of whole rows, a gated residual, and its norm."""
    module = library.FLASHINFER.module(_DUAL_NORM)
    cluster = _blocks(hidden)
    tuning = module.LLAllGatherDualNormTuning(cluster_size=cluster, threads=hidden // (8 * cluster), enable_pdl=pdl)
    own = _compiler(module.LLAllGatherDualNorm, **_gathered(hidden, ranks, most_rows), tuning=tuning)
    return own._compile(module._NormConstants(eps, eps, 0.0, 0.0, post_weight))


@kernel(op="flashinfer.all_gather_norm_fp4", imports=[_NORM_QUANT], targets=_TARGETS, supports=supports_gather)
def all_gather_norm_fp4(hidden: int, ranks: int, most_rows: int = 64, eps: float = 1e-6, pdl: bool = False) -> Any:
    """Columns of all GPUs behind ``all_reduce_publish``, and the norm of whole rows as NVFP4."""
    module = library.FLASHINFER.module(_NORM_QUANT)
    own = _compiler(module.LLAllGatherNormQuant, **_gathered(hidden, ranks, most_rows), enable_pdl=pdl)
    return own._compile(module._NormQuantConstants(eps, 0.0))


def _gathered(hidden: int, ranks: int, most_rows: int) -> dict[str, Any]:
    """What the library's objects that gather columns know: of their mailbox, how many numbers it holds."""
    generations = library.FLASHINFER.module(_PROTOCOL).LAMPORT_GENERATIONS
    mailbox = SimpleNamespace(tensor=SimpleNamespace(numel=lambda: generations * most_rows * hidden))
    return {
        "hidden_size": hidden, "hidden_local": hidden // ranks, "tp_size": ranks, "capacity_m": most_rows,
        "state": SimpleNamespace(contribution_mailbox=mailbox),
    }  # fmt: skip


def _blocks(hidden: int) -> int:
    """The blocks of a cluster that share a row, of 8 numbers to a thread.

    >>> _blocks(7168), _blocks(4096)
    (7, 4)
    """
    return -(-hidden // 1024)


@kernel(op="flashinfer.all_reduce_rows", imports=[_ROWS], targets=_TARGETS, supports=supports)
def all_reduce_rows(
    hidden: int,
    ranks: int,
    rank: int,
    most_rows: int = 1024,
    residual: bool = True,
    eps: float = 1e-6,
    weight_bias: float = 0.0,
    pdl: bool = False,
) -> Any:
    """A sum of many rows, and its norm: three objects, one behind another."""
    protocol = library.FLASHINFER.module(_ROWS)
    fields = _fields(hidden, ranks, rank, most_rows, residual, eps, weight_bias)
    own = _compiler(protocol.BTProtocol, **fields, local_capacity=-(-most_rows // ranks))
    tail = protocol.BTCollectiveTuning(enable_pdl=pdl)
    publish = own._compile_all_reduce_publish(protocol.BTAllReduceTuning(collective=tail))
    kernels = own._compile_tail(tail)
    return publish, kernels.reduce, kernels.rms_norm


@kernel(op="flashinfer.all_reduce_persistent", imports=[_PERSISTENT], targets=_TARGETS, supports=supports_persistent)
def all_reduce_persistent(
    hidden: int,
    ranks: int,
    rank: int,
    most_rows: int = 4096,
    residual: bool = True,
    eps: float = 1e-6,
    weight_bias: float = 0.0,
    threads: Tuned[int] = 512,
    vectors: Tuned[int] = 2,
) -> Any:
    """A sum of very many rows and its norm, by blocks that stay: all of them must run at once. ``threads`` times 8
    times ``vectors`` divides ``hidden``."""
    protocol = library.FLASHINFER.module(_PERSISTENT)
    fields = _fields(hidden, ranks, rank, most_rows, residual, eps, weight_bias)
    tuning = protocol.HTAllReduceTuning(consumer_threads=threads, vectors_per_thread=vectors)
    return _compiler(protocol.HTProtocol, **fields)._compile_all_reduce(tuning)


@kernel(op="flashinfer.gemm_all_reduce", imports=[_GEMM], targets=_TARGETS, supports=supports)
def gemm_all_reduce(
    dtype: DType,
    ranks: int,
    rank: int,
    tile: Tuned[Sequence[int]] = (128, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
) -> Any:
    """A product of matrices, summed over GPUs: each tile as soon as all have it.

    ``a`` is ``[m, k, 1]``, ``b`` ``[n, k, 1]`` and ``c`` ``[m, n, 1]``; ``c_mc`` is the multicast address of ``c`` of
    all GPUs, and the two flags are int32, one for each tile and one more for each multiprocessor.
    """
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

    make = library.FLASHINFER.module(_GEMM).PersistentDenseGemmKernel
    with _process_group(ranks, rank):
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
