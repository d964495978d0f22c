"""Sums of many rows over GPUs, in three launches: each row is sent to the rank that sums it, summed, and normed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.adapters.flashinfer.collective import mailboxes, sums
from precast.kernels.adapters.flashinfer.collective.mailboxes import Places
from precast.kernels.adapters.flashinfer.collective.protocols import MNNVL, TARGETS, compiler, fields, supports
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.composition.part import Part
from precast.kernels.authoring.declare import Problem, kernel
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_ROWS = f"{MNNVL}.kernel_bt.protocol"
_WORDS = 6  # of the state of the stages


def part(name: str, config: Config, target: Target) -> Part | None:
    """How each of the three launches is verified."""
    return {
        "publish": Part(
            problems=_problems((1, 2), (9, 0), (17, 1)),
            inputs=publish_inputs,
            passes=publish_passes,
            outputs=("peers", "stage_state"),
            in_place=("peers", "stage_state"),
            reference=publish_reference,
        ),
        "reduce": Part(
            problems=_problems((1, 2), (8, 0), (9, 1)),
            inputs=reduce_inputs,
            passes=reduce_passes,
            outputs=("contribution_mailbox", "prenorm", "stage_state"),
            in_place=("contribution_mailbox", "prenorm", "stage_state"),
            reference=reduce_reference,
        ),
        "norm": Part(
            problems=_problems((1, 2), (3, 0), (9, 1)),
            inputs=norm_inputs,
            passes=norm_passes,
            outputs=("residual_output", "norm_output", "prenorm_mailbox"),
            in_place=("residual_output", "prenorm_mailbox"),
            reference=norm_reference,
            tolerance=mailboxes.tolerance,
        ),
    }.get(name)


def _problems(*cases: tuple[int, int]) -> list[Problem]:
    return [{"rows": rows, "generation": generation} for rows, generation in cases]


def _sizes(config: Config) -> tuple[int, int, int]:
    ranks, rank, hidden = (configs.integer(config, name) for name in ("ranks", "rank", "hidden"))
    return ranks, rank, hidden


def _shares(config: Config) -> Places:
    """The places in a rank's mailbox: a slot for each sender, with its share of the rows."""
    ranks, _, hidden = _sizes(config)
    return Places(ranks, -(-configs.integer(config, "most_rows") // ranks), hidden)


def publish_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """A GPU's rows, with some negative zeros, and everyone's mailboxes."""
    ranks, _, hidden = _sizes(config)
    rows, generation = problem["rows"], problem["generation"]
    shared = tensors.normal((rows * hidden,), "bfloat16", device=device, seed=seed)
    shared[5::13] = -0.0
    following = (generation + 1) % mailboxes.GENERATIONS
    return {
        "shared_output": shared,
        "peers": mailboxes.empty((ranks, -(-rows // ranks), hidden), device=device),
        "stage_state": mailboxes.stages(generation, following, count=_WORDS, device=device),
        "m": rows,
    }


def publish_passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Where each rank has its mailbox."""
    generation, rank = mailboxes.generation_of(values, 0), configs.integer(config, "rank")
    addresses = mailboxes.table(values["peers"], _shares(config), generation, rank)
    return {"contribution_mailbox_peer_addresses": addresses}


def publish_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Each row with the rank that sums it: they take turns."""
    ranks, _, hidden = _sizes(config)
    peers = values["peers"].clone()
    rows = mailboxes.sent(values["shared_output"]).view(-1, hidden)
    for number, row in enumerate(rows):
        peers[number % ranks, number // ranks] = row
    generation = mailboxes.generation_of(values, 0)
    state = mailboxes.stages(generation, generation, count=_WORDS, device=peers.device)
    return {"peers": peers, "stage_state": state}


def reduce_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """What all ranks sent of this one's rows; a place for the sums in everyone's memory."""
    ranks, _, hidden = _sizes(config)
    rows, generation = problem["rows"], problem["generation"]
    return {
        "contribution_mailbox": mailboxes.slots(_shares(config), -(-rows // ranks), device=device, seed=seed),
        "residual_source": tensors.normal((rows * hidden,), "bfloat16", device=device, seed=seed + 1),
        "prenorm": mailboxes.empty((ranks, rows, hidden), device=device),
        "stage_state": mailboxes.stages(generation, generation, count=_WORDS, device=device),
        "m": rows,
    }


def reduce_passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """This rank's whole mailbox, and the address of everyone's sums."""
    generation, single = mailboxes.generation_of(values, 1), sums.shot_places(config)
    return {
        "contribution_mailbox": mailboxes.window(values["contribution_mailbox"], _shares(config), generation),
        "prenorm_mailbox_multicast_address": mailboxes.everyone(values["prenorm"], single, generation),
    }


def reduce_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The sums of this rank's rows, bit by bit, in everyone's memory."""
    ranks, rank, hidden = _sizes(config)
    mailbox, prenorm = values["contribution_mailbox"].clone(), values["prenorm"].clone()
    own = range(rank, prenorm.shape[1], ranks)
    residual = values["residual_source"].view(-1, hidden)[rank::ranks] if config["residual"] else None
    if own:
        prenorm[:, rank::ranks] = mailboxes.computed(mailboxes.summed(mailbox[:, : len(own)], residual))
        mailbox[:, : len(own)] = mailboxes.EMPTY
    generation = mailboxes.generation_of(values, 1)
    following = (generation + 1) % mailboxes.GENERATIONS
    state = mailboxes.stages(following, generation, count=_WORDS, device=mailbox.device)
    return {"contribution_mailbox": mailbox, "prenorm": prenorm, "stage_state": state}


def norm_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """The sums that all ranks sent."""
    _, _, hidden = _sizes(config)
    rows, generation = problem["rows"], problem["generation"]

    def vector(size: int, number: int) -> Any:
        return tensors.normal((size,), "bfloat16", device=device, seed=seed + number)

    return {
        "prenorm_mailbox": mailboxes.messages((rows, hidden), device=device, seed=seed),
        "residual_output": vector(rows * hidden, 1),
        "norm_output": vector(rows * hidden, 2),
        "gamma": vector(hidden, 3),
        "stage_state": mailboxes.stages(generation, generation, count=_WORDS, device=device),
        "m": rows,
    }


def norm_passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The whole mailbox."""
    generation = mailboxes.generation_of(values, 1)
    return {"prenorm_mailbox": mailboxes.window(values["prenorm_mailbox"], sums.shot_places(config), generation)}


def norm_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The norm of the sums, which are kept with a residual; and a mailbox that is empty again."""
    import torch

    mailbox = values["prenorm_mailbox"]
    empty = mailboxes.empty(mailbox.shape, device=mailbox.device)
    return {**sums.results(config, values, mailbox.view(torch.bfloat16)), "prenorm_mailbox": empty}


@kernel(
    op="flashinfer.all_reduce_rows",
    imports=[_ROWS],
    targets=TARGETS,
    supports=supports,
    part=part,
)
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
    own = fields(hidden, ranks, rank, most_rows, residual, eps, weight_bias)
    protocols = compiler(protocol.BTProtocol, **own, local_capacity=-(-most_rows // ranks))
    tail = protocol.BTCollectiveTuning(enable_pdl=pdl)
    publish = protocols._compile_all_reduce_publish(protocol.BTAllReduceTuning(collective=tail))
    kernels = protocols._compile_tail(tail)
    return publish, kernels.reduce, kernels.rms_norm
