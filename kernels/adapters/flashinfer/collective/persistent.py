"""Sums of very many rows over GPUs, and their norm, in one launch of blocks that stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.adapters.flashinfer.collective import mailboxes
from precast.kernels.adapters.flashinfer.collective.protocols import MNNVL, TARGETS, compiler, fields
from precast.kernels.adapters.flashinfer.collective.protocols import supports as supports_ranks
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.composition.addresses import Multicast, Window
from precast.kernels.authoring.declare import Problem, kernel
from precast.kernels.authoring.hints import Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_PERSISTENT = f"{MNNVL}.kernel_ht.protocol"
_BEFORE = 5  # launches


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


@contextmanager
def _acquiring() -> Iterator[None]:
    """Let loads that acquire from other GPUs be followed by a fence.

    The library waits for a counter with relaxed loads, and then loads it once more, with acquire. What that returns is
    not used, so the compiler drops the load: nothing orders the sums behind what other threads and GPUs stored.
    """
    from cutlass.cute import arch

    original = arch.load

    def load(*given: Any, **named: Any) -> Any:
        value = original(*given, **named)
        if named.get("sem") == "acquire" and named.get("scope") == "sys":
            arch.fence_acq_rel_sys()
        return value

    arch.load = load
    try:
        yield
    finally:
        arch.load = original


def problems(config: Config) -> Sequence[Problem]:
    """More rows than ranks, of which one sums two."""
    return [{"rows": configs.integer(config, "ranks") + 1}]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """What all ranks have: rows, residuals, memory that they share, and counters behind some launches."""
    import torch

    ranks, hidden, rows = configs.integer(config, "ranks"), configs.integer(config, "hidden"), problem["rows"]
    slots = -(-configs.integer(config, "most_rows") // ranks)

    def vectors(size: int, number: int) -> Any:
        return tensors.normal((ranks, size), "bfloat16", device=device, seed=seed + number)

    return {
        "contributions": vectors(rows * hidden, 0),
        "residuals": vectors(rows * hidden, 1),
        "gamma": tensors.normal((hidden,), "bfloat16", device=device, seed=seed + 2),
        "locals": vectors(rows * hidden, 3),
        "prenorm": mailboxes.messages((ranks, rows * hidden), device=device, seed=seed + 4),
        "residual_outputs": vectors(rows * hidden, 5),
        "norm_outputs": vectors(rows * hidden, 6),
        "ready": torch.full((ranks, slots), _BEFORE * ranks, dtype=torch.int32, device=device),
        "processed": torch.full((ranks, slots * ranks), _BEFORE * ranks, dtype=torch.int32, device=device),
        "unused": torch.zeros(hidden, dtype=torch.bfloat16, device=device),
        "no_indices": torch.zeros(1, dtype=torch.int32, device=device),
        "rows": rows,
    }


def passes(config: Config, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The arguments of each rank."""
    import torch

    shape = (configs.integer(config, "most_rows") * configs.integer(config, "hidden"),)
    ready = values["ready"]
    addresses = torch.tensor([each.data_ptr() for each in ready], dtype=torch.int64, device=ready.device)
    return [
        {
            "routed_output": values["unused"],
            "expert_weights": values["unused"],
            "permuted_indices": values["no_indices"],
            "shared_output": values["contributions"][rank],
            "residual_source": values["residuals"][rank],
            "local_contributions": Window(values["locals"][rank], shape),
            "prenorm_mailbox": Window(values["prenorm"][rank].view(torch.bfloat16), shape),
            "residual_output": values["residual_outputs"][rank],
            "norm_output": values["norm_outputs"][rank],
            "ready_counter_peer_addresses": addresses,
            "ready_counters": ready[rank].view(torch.uint32),
            "processed_counters": values["processed"][rank].view(torch.uint32),
            "local_contributions_multicast_address": Multicast(values["locals"]),
            "prenorm_mailbox_multicast_address": Multicast(values["prenorm"]),
            "m": values["rows"],
        }
        for rank in range(configs.integer(config, "ranks"))
    ]


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Each row is summed by the rank whose turn it is, with its residual, and all ranks have the same."""
    import torch

    ranks, hidden = configs.integer(config, "ranks"), configs.integer(config, "hidden")
    parts, residuals = (values[name].view(ranks, -1, hidden) for name in ("contributions", "residuals"))
    rows = parts.shape[1]
    # The sum of all ranks is rounded once by the switch, and once more with the residual.
    total = mailboxes.summed(parts.view(torch.int16), None).float()
    if config["residual"]:
        total = total + torch.stack([residuals[row % ranks, row] for row in range(rows)]).float()
    sums = mailboxes.computed(total)
    normed = mailboxes.normed(config, sums.view(torch.bfloat16), values["gamma"]).reshape(1, -1)
    ready, processed = values["ready"].clone(), values["processed"].clone()
    for row in range(rows):
        ready[row % ranks, row // ranks] += ranks
        processed[row % ranks, row // ranks * ranks : (row // ranks + 1) * ranks] += ranks
    everyone = sums.view(1, -1).expand(ranks, -1)
    return {
        "locals": values["contributions"],
        "prenorm": everyone,
        "residual_outputs": everyone.view(torch.bfloat16) if config["residual"] else values["residual_outputs"],
        "norm_outputs": normed.expand(ranks, -1),
        "ready": ready,
        "processed": processed,
    }


@kernel(
    op="flashinfer.all_reduce_persistent",
    imports=[_PERSISTENT],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=inputs,
    passes=passes,
    rank_key="rank",
    outputs=["locals", "prenorm", "residual_outputs", "norm_outputs", "ready", "processed"],
    in_place=["residual_outputs", "ready", "processed"],
    reference=reference,
    tolerance=mailboxes.tolerance,
    special_values=[],
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
    with _acquiring():
        return compiler(protocol.HTProtocol, **own)._compile_all_reduce(tuning)
