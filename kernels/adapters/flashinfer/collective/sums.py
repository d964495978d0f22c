"""Sums of rows over GPUs with the norm behind them: what a mailbox holds, and both steps in one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.adapters.flashinfer.collective import mailboxes
from precast.kernels.adapters.flashinfer.collective.mailboxes import Places
from precast.kernels.adapters.flashinfer.collective.protocols import PROTOCOL, TARGETS, compiler, fields, supports
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import Problem, kernel
from precast.kernels.authoring.hints import Tuned
from precast.loader.contract.format.config import Config


def problems(config: Config) -> Sequence[Problem]:
    """One row and a few, in each generation of the mailboxes."""
    return [{"rows": rows, "generation": generation} for rows, generation in ((1, 1), (2, 2), (5, 0))]


def norm_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """A mailbox with the rows of all ranks."""
    rows, generation = problem["rows"], problem["generation"]
    mailbox = mailboxes.slots(mailboxes.places_of(config), rows, device=device, seed=seed)
    return {
        "contribution_mailbox": mailbox,
        "stage_state": mailboxes.stages(generation, generation, device=device),
        **_normed(config, rows, device=device, seed=seed + 1),
    }


def _normed(config: Config, rows: int, *, device: Any, seed: int) -> dict[str, Any]:
    hidden = configs.integer(config, "hidden")

    def vector(size: int, number: int) -> Any:
        return tensors.normal((size,), "bfloat16", device=device, seed=seed + number)

    return {
        "residual_source": vector(rows * hidden, 0),
        "gamma": vector(hidden, 1),
        "residual_output": vector(rows * hidden, 2),
        "norm_output": vector(rows * hidden, 3),
        "m": rows,
    }


def norm_passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The whole mailbox."""
    places = mailboxes.places_of(config)
    generation = mailboxes.generation_of(values, 1)
    return {"contribution_mailbox": mailboxes.window(values["contribution_mailbox"], places, generation)}


def norm_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The sum, its norm, and a mailbox that is empty again."""
    mailbox, generation = values["contribution_mailbox"], mailboxes.generation_of(values, 1)
    residual = values["residual_source"].view(mailbox[0].shape) if config["residual"] else None
    total = mailboxes.summed(mailbox, residual)
    following = (generation + 1) % mailboxes.GENERATIONS
    return {
        **results(config, values, total),
        "contribution_mailbox": mailboxes.empty(mailbox.shape, device=mailbox.device),
        "stage_state": mailboxes.stages(following, generation, device=mailbox.device),
    }


def results(config: Config, values: Mapping[str, Any], total: Any) -> dict[str, Any]:
    """The sum where it is kept, and its norm."""
    kept = total if config["residual"] else values["residual_output"]
    return {
        "residual_output": kept.reshape(-1),
        "norm_output": mailboxes.normed(config, total, values["gamma"]).reshape(-1),
    }


def shot_places(config: Config) -> Places:
    """The places in the mailboxes that have sums: one slot."""
    return Places(1, configs.integer(config, "most_rows"), configs.integer(config, "hidden"))


def _own(config: Config) -> slice:
    """The columns that this rank sums."""
    share = configs.integer(config, "hidden") // configs.integer(config, "ranks")
    rank = configs.integer(config, "rank")
    return slice(rank * share, (rank + 1) * share)


def shot_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """What the others sent of this rank's columns, their sums of the other columns, and everyone's empty mailboxes."""
    ranks, hidden, rows = configs.integer(config, "ranks"), configs.integer(config, "hidden"), problem["rows"]
    rank, own = configs.integer(config, "rank"), _own(config)
    received = mailboxes.slots(mailboxes.places_of(config), rows, device=device, seed=seed)
    arrived = received[:, :, own].clone()
    received.fill_(mailboxes.EMPTY)
    received[:, :, own] = arrived
    received[rank] = mailboxes.EMPTY
    gathered = mailboxes.empty((ranks, rows, hidden), device=device)
    gathered[rank] = mailboxes.messages((rows, hidden), device=device, seed=seed + 1)
    gathered[rank, :, own] = mailboxes.EMPTY
    stays = configs.integer(config, "most_rows") * configs.integer(config, "cluster")
    return {
        "local_contribution": tensors.normal((rows * hidden,), "bfloat16", device=device, seed=seed + 2),
        "scatter_mailbox": received,
        "peers": mailboxes.empty((ranks, rows, hidden), device=device),
        "gathered": gathered,
        "generations": _generations(stays, problem["generation"], device),
        **_normed(config, rows, device=device, seed=seed + 3),
    }


def _generations(count: int, generation: int, device: Any) -> Any:
    import torch

    return torch.full((count,), generation, dtype=torch.int32, device=device)


def shot_passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The mailboxes of this rank, of each other rank, and of all at once."""
    rank, generation = configs.integer(config, "rank"), int(values["generations"][-1])
    places, single = mailboxes.places_of(config), shot_places(config)
    return {
        "scatter_mailbox": mailboxes.window(values["scatter_mailbox"], places, generation),
        "scatter_peer_mailboxes": mailboxes.table(values["peers"], places, generation, rank),
        "gather_mailbox": mailboxes.window(values["gathered"][rank], single, generation),
        "gather_multicast_address": mailboxes.everyone(values["gathered"], single, generation),
    }


def shot_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """This rank's columns are summed and sent to all; the other columns are sent to who sums them."""
    import torch

    rank, ranks, own = configs.integer(config, "rank"), configs.integer(config, "ranks"), _own(config)
    received, gathered = values["scatter_mailbox"], values["gathered"]
    rows, hidden = gathered.shape[1:]
    mine = mailboxes.sent(values["local_contribution"]).view(rows, hidden)
    parts = received[:, :, own].clone()
    parts[rank] = mine[:, own]
    residual = values["residual_source"].view(rows, hidden)[:, own] if config["residual"] else None
    sums = mailboxes.computed(mailboxes.summed(parts, residual))
    total = gathered[rank].clone()
    total[:, own] = sums
    everywhere = mailboxes.empty(gathered.shape, device=gathered.device)
    everywhere[:, :, own] = sums
    everywhere[rank] = mailboxes.EMPTY  # read, and empty again
    peers = mailboxes.empty(gathered.shape, device=gathered.device)
    share = hidden // ranks
    for other in (other for other in range(ranks) if other != rank):
        columns = slice(other * share, (other + 1) * share)
        peers[other, :, columns] = mine[:, columns]
    generations = values["generations"].clone()
    done = rows * configs.integer(config, "cluster")
    generations[:done] = (generations[:done] + 1) % mailboxes.GENERATIONS
    return {
        **results(config, values, total.view(torch.bfloat16)),
        "scatter_mailbox": mailboxes.empty(received.shape, device=received.device),
        "peers": peers,
        "gathered": everywhere,
        "generations": generations,
    }


@kernel(
    op="flashinfer.all_reduce_norm",
    imports=[PROTOCOL],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=norm_inputs,
    passes=norm_passes,
    outputs=["residual_output", "norm_output", "contribution_mailbox", "stage_state"],
    in_place=["residual_output", "contribution_mailbox", "stage_state"],
    reference=norm_reference,
    tolerance=mailboxes.tolerance,
)
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
    protocol = library.FLASHINFER.module(PROTOCOL)
    own = fields(hidden, ranks, 0, most_rows, residual, eps, weight_bias)
    tuning = protocol.LLCollectiveTuning(cluster_size=cluster, threads=threads, enable_pdl=pdl)
    return compiler(protocol.LLProtocol, **own)._compile_collective(tuning)


@kernel(
    op="flashinfer.all_reduce_two_shot",
    imports=[PROTOCOL],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=shot_inputs,
    passes=shot_passes,
    outputs=["residual_output", "norm_output", "scatter_mailbox", "peers", "gathered", "generations"],
    in_place=["residual_output", "scatter_mailbox", "peers", "gathered", "generations"],
    reference=shot_reference,
    tolerance=mailboxes.tolerance,
)
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
    protocol = library.FLASHINFER.module(PROTOCOL)
    own = fields(hidden, ranks, rank, most_rows, residual, eps, weight_bias)
    tuning = protocol.LLCollectiveTuning(cluster_size=cluster, threads=threads, enable_pdl=pdl)
    return compiler(protocol.LLProtocol, **own)._compile_two_shot(tuning, most_rows)
