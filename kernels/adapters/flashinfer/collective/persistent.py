"""Sums of very many rows over GPUs, and their norm, in one launch of blocks that stay."""

from __future__ import annotations

from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.adapters.flashinfer.collective.protocols import MNNVL, TARGETS, compiler, fields
from precast.kernels.adapters.flashinfer.collective.protocols import supports as supports_ranks
from precast.kernels.authoring import configs
from precast.kernels.authoring.declare import kernel
from precast.kernels.authoring.hints import Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_PERSISTENT = f"{MNNVL}.kernel_ht.protocol"


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return supports_ranks(config, target) or threads_refusal(config)


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


@kernel(
    op="flashinfer.all_reduce_persistent",
    imports=[_PERSISTENT],
    targets=TARGETS,
    supports=supports,
)
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
    own = fields(hidden, ranks, rank, most_rows, residual, eps, weight_bias)
    tuning = protocol.HTAllReduceTuning(consumer_threads=threads, vectors_per_thread=vectors)
    return compiler(protocol.HTProtocol, **own)._compile_all_reduce(tuning)
