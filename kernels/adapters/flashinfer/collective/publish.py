"""Publishers: the first launch of a sum over GPUs, which stores one GPU's part into the mailboxes of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.flashinfer import library
from precast.kernels.adapters.flashinfer.collective import mailboxes
from precast.kernels.adapters.flashinfer.collective.protocols import (
    MNNVL,
    PROTOCOL,
    TARGETS,
    compiler,
    fields,
    supports,
)
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import to_torch
from precast.kernels.authoring.hints import Tuned
from precast.loader.contract.format.config import Config

_EXPERTS = f"{MNNVL}.kernel_ll.moe_finalize_norm_all_reduce"


def problems(config: Config) -> Sequence[Problem]:
    """One row and a few, in each generation of the mailboxes."""
    return [{"rows": rows, "generation": generation} for rows, generation in ((1, 2), (3, 0), (8, 1))]


def publish_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """A GPU's rows, with some negative zeros, and the places of all mailboxes that they are for."""
    hidden, rows, generation = configs.integer(config, "hidden"), problem["rows"], problem["generation"]
    shared = tensors.normal((rows * hidden,), "bfloat16", device=device, seed=seed)
    shared[3::17] = -0.0
    return {"shared_output": shared, "m": rows, **_sent(config, rows, generation, "int16", device)}


def _sent(config: Config, rows: int, generation: int, dtype: str, device: Any) -> dict[str, Any]:
    ranks, hidden = configs.integer(config, "ranks"), configs.integer(config, "hidden")
    return {
        "mailboxes": tensors.empty((ranks, rows, hidden), dtype, device=device),
        "stage_state": mailboxes.stages(generation, (generation + 1) % mailboxes.GENERATIONS, device=device),
    }


def passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The address of all mailboxes, and none of single ones."""
    generation, rank = mailboxes.generation_of(values, 0), configs.integer(config, "rank")
    address = mailboxes.everyone(values["mailboxes"], mailboxes.places_of(config), generation, rank)
    return {"contribution_mailbox_multicast_address": address, "peer_mailboxes": None}


def _published(config: Config, values: Mapping[str, Any], rows: Any) -> dict[str, Any]:
    """The same rows in each mailbox, and the generation in which they were sent."""
    generation = mailboxes.generation_of(values, 0)
    boxes = values["mailboxes"]
    return {
        "mailboxes": rows.view(1, *boxes.shape[1:]).expand(boxes.shape),
        "stage_state": mailboxes.stages(generation, generation, device=boxes.device),
    }


def publish_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The rows, bit by bit, without negative zeros."""
    return _published(config, values, mailboxes.sent(values["shared_output"]))


def finalize_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Rows of experts, where each token finds its own, and their weights; some experts are another GPU's."""
    rows, hidden = problem["rows"], configs.integer(config, "hidden")
    return {
        "routed_output": tensors.normal((_found(config, rows) * hidden,), "bfloat16", device=device, seed=seed),
        "expert_weights": _weights(config, rows, device=device, seed=seed + 1),
        "permuted_indices": _indices(config, rows, device=device, seed=seed + 2),
        "shared_output": tensors.normal((rows * hidden,), "bfloat16", device=device, seed=seed + 3),
        "m": rows,
        **_sent(config, rows, problem["generation"], "bfloat16", device),
    }


def norm_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """The same with weights of a norm, and without an expert that all tokens share."""
    values = finalize_inputs(config, problem, device=device, seed=seed)
    rows, hidden = problem["rows"], configs.integer(config, "hidden")
    return {
        "routed_rows": values["routed_output"],
        "route_weights": values["expert_weights"],
        "permuted_idx": values["permuted_indices"],
        "norm_weight": tensors.normal((hidden,), "bfloat16", device=device, seed=seed + 4),
        "num_rows": _found(config, rows),
        **{name: values[name] for name in ("m", "mailboxes", "stage_state")},
    }


def _found(config: Config, rows: int) -> int:
    """How many rows this GPU's experts made."""
    return max(2, rows * configs.integer(config, "top_k") // 2)


def _weights(config: Config, rows: int, *, device: Any, seed: int) -> Any:
    import torch

    count = rows * configs.integer(config, "top_k")
    draw = torch.Generator(device="cpu").manual_seed(seed)
    return torch.rand(count, generator=draw).to(torch.bfloat16).to(device)


def _indices(config: Config, rows: int, *, device: Any, seed: int) -> Any:
    """A row for each token and expert, or -1."""
    import torch

    count = rows * configs.integer(config, "top_k")
    draw = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randint(-1, _found(config, rows), (count,), generator=draw, dtype=torch.int32).to(device)


def _routed(config: Config, rows: Any, indices: Any, weights: Any) -> Any:
    """The sum of a token's rows in float64, each times its weight."""
    top_k = configs.integer(config, "top_k")
    at = indices.view(-1, top_k).long()
    kept = weights.double().view(-1, top_k) * (at >= 0)
    return (rows[at.clamp(min=0)] * kept.unsqueeze(-1)).sum(dim=1)


def finalize_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The weighted rows of the experts, and what all tokens share."""
    hidden = configs.integer(config, "hidden")
    rows = values["routed_output"].double().view(-1, hidden)
    scale = float(config["routed_scale"])  # type: ignore[arg-type]
    total = scale * _routed(config, rows, values["permuted_indices"], values["expert_weights"])
    if config["shared_expert"]:
        total = total + values["shared_output"].double().view(-1, hidden)
    return _published(config, values, total)


def norm_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The weighted norms of the experts' rows."""
    hidden = configs.integer(config, "hidden")
    rows = values["routed_rows"].double().view(-1, hidden)
    weight = values["norm_weight"].double() + float(config["gain"])  # type: ignore[arg-type]
    rows = rows * weight if config["weight_before_norm"] else rows
    rows = rows * (rows.square().mean(dim=-1, keepdim=True) + float(config["eps"])).rsqrt()  # type: ignore[arg-type]
    rows = rows if config["weight_before_norm"] else rows * weight
    return _published(config, values, _routed(config, rows, values["permuted_idx"], values["route_weights"]))


def tolerance(config: Config) -> Tolerance:
    """Sums whose terms may cancel: an error of a few units of float32 at a term of 16."""
    return Tolerance(rtol=2.0**-20, atol=16 * 2.0**-21, ulps=0.75)


@kernel(
    op="flashinfer.all_reduce_publish",
    imports=[PROTOCOL],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=publish_inputs,
    passes=passes,
    outputs=["mailboxes", "stage_state"],
    in_place=["stage_state"],
    reference=publish_reference,
)
def all_reduce_publish(
    hidden: int, ranks: int, rank: int, most_rows: int = 64, pdl: bool = False, threads: Tuned[int] = 128
) -> Any:
    """The first launch of a sum: one GPU's rows of bfloat16, into the mailboxes of all."""
    return library.compiled(
        f"{PROTOCOL}:compile_shared_only_publish",
        hidden=hidden,
        tp=ranks,
        rank=rank,
        capacity_m=most_rows,
        elements_per_thread=8,
        threads=threads,
        release_before_store=False,
        enable_pdl=pdl,
    )


@kernel(
    op="flashinfer.finalize_publish",
    imports=[PROTOCOL],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=finalize_inputs,
    passes=passes,
    outputs=["mailboxes", "stage_state"],
    in_place=["stage_state"],
    reference=finalize_reference,
    tolerance=tolerance,
    special_values=["zero"],
)
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
    protocol = library.FLASHINFER.module(PROTOCOL)
    own = fields(hidden, ranks, rank, most_rows)
    experts = {"top_k": top_k, "include_shared_expert": shared_expert, "routed_scaling_factor": routed_scale}
    tuning = protocol.LLFinalizeTuning(
        elements_per_thread=elements, threads=threads, collective=protocol.LLCollectiveTuning(enable_pdl=pdl)
    )
    return compiler(protocol.LLProtocol, **own, **experts)._compile_finalize(tuning)


@kernel(
    op="flashinfer.finalize_norm_publish",
    imports=[_EXPERTS],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=norm_inputs,
    passes=passes,
    outputs=["mailboxes", "stage_state"],
    in_place=["stage_state"],
    reference=norm_reference,
    tolerance=tolerance,
    special_values=["zero"],
)
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
    own = fields(hidden, ranks, rank, most_rows)
    publishers = compiler(experts, **own, topk=top_k, threads=threads, enable_pdl=pdl, _publishers={})
    return publishers.publisher(
        row_stride=hidden,
        weight_dtype=to_torch("bfloat16"),
        weight_before_norm=weight_before_norm,
        eps=eps,
        gain_center=gain,
    )
