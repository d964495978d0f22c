"""Columns of all GPUs behind a publisher, and what is computed of whole rows: two norms, or one as NVFP4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from precast.kernels.adapters.flashinfer import blocks, library
from precast.kernels.adapters.flashinfer.collective import mailboxes
from precast.kernels.adapters.flashinfer.collective.mailboxes import Places
from precast.kernels.adapters.flashinfer.collective.protocols import MNNVL, PROTOCOL, TARGETS, compiler
from precast.kernels.adapters.flashinfer.collective.protocols import supports as supports_ranks
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import Problem, Tolerance, kernel
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_DUAL_NORM = f"{MNNVL}.kernel_ll.all_gather_dual_norm"
_NORM_QUANT = f"{MNNVL}.kernel_ll.all_gather_norm_quant"
_BLOCK, _SCALE = 16, "float8_e4m3fn"  # of NVFP4
_FILLERS, _SURE = 12, (1.125, 1.25, 1.375, 1.5)  # blocks of a row; scales that are away from the edges of rounding


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    hidden = configs.integer(config, "hidden")
    return supports_ranks(config, target) or library.width_refusal("hidden", hidden, 1024)


def problems(config: Config) -> Sequence[Problem]:
    """One row and a few, in each generation of the mailbox."""
    return [{"rows": rows, "generation": generation} for rows, generation in ((1, 1), (2, 2), (5, 0))]


def places(config: Config) -> Places:
    """A slot for each rank, with its columns."""
    ranks = configs.integer(config, "ranks")
    return Places(ranks, configs.integer(config, "most_rows"), configs.integer(config, "hidden") // ranks)


def passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The whole mailbox."""
    generation = mailboxes.generation_of(values, 1)
    return {"contribution_mailbox": mailboxes.window(values["contribution_mailbox"], places(config), generation)}


def _received(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    generation = problem["generation"]
    return {
        "contribution_mailbox": mailboxes.slots(places(config), problem["rows"], device=device, seed=seed),
        "stage_state": mailboxes.stages(generation, generation, device=device),
        "m": problem["rows"],
    }


def _emptied(values: Mapping[str, Any]) -> dict[str, Any]:
    mailbox, generation = values["contribution_mailbox"], mailboxes.generation_of(values, 1)
    following = (generation + 1) % mailboxes.GENERATIONS
    return {
        "contribution_mailbox": mailboxes.empty(mailbox.shape, device=mailbox.device),
        "stage_state": mailboxes.stages(following, generation, device=mailbox.device),
    }


def _rows(mailbox: Any) -> Any:
    """The whole rows, of the columns of all ranks."""
    return mailboxes.numbers(mailbox).double().transpose(0, 1).flatten(1)


def dual_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Columns, a residual, its gates, and the weights of two norms."""
    hidden, rows = configs.integer(config, "hidden"), problem["rows"]

    def vector(size: int, dtype: str, number: int) -> Any:
        return tensors.normal((size,), dtype, device=device, seed=seed + number)

    return {
        **_received(config, problem, device=device, seed=seed),
        "residual": vector(rows * hidden, "float32", 1),
        "alpha": vector(hidden, "float32", 2),
        "beta": vector(hidden, "float32", 3),
        "post_weight": vector(hidden, "bfloat16", 4),
        "next_weight": vector(hidden, "bfloat16", 5),
        "residual_output": vector(rows * hidden, "float32", 6),
        "norm_output": vector(rows * hidden, "bfloat16", 7),
    }


def dual_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """``alpha`` of the residual and ``beta`` of the norm of a row; and the norm of that sum. In float64."""
    eps = float(config["eps"])  # type: ignore[arg-type]
    branch = _rows(values["contribution_mailbox"])
    if config["post_weight"]:
        branch = branch * values["post_weight"].double()
    branch = branch * (branch.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    residual = values["residual"].double().view(branch.shape)
    updated = values["alpha"].double() * residual + values["beta"].double() * branch
    normed = updated * (updated.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * values["next_weight"].double()
    return {"residual_output": updated.flatten(), "norm_output": normed.flatten(), **_emptied(values)}


def tolerance(config: Config) -> Tolerance:
    """Two norms in float32, of which one is added to something that may cancel it."""
    return Tolerance(rtol=2.0**-19, atol=2.0**-18, ulps=0.75)


def fp4_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Columns whose norms are away from every edge of rounding to FP4: the mean square of a row is nearly one."""
    import torch

    hidden, rows = configs.integer(config, "hidden"), problem["rows"]
    received = _received(config, problem, device=device, seed=seed)
    draw = torch.Generator(device="cpu").manual_seed(seed + 1)
    weight = 2.0 ** -torch.randint(0, 2, (hidden,), generator=draw).double()
    weight[-_FILLERS * _BLOCK :] = 1.0
    exact = blocks.fp4_values(rows, hidden, _BLOCK, _SCALE, device="cpu", seed=seed) / weight
    exact *= 2.0 ** float((0.5 * torch.log2(0.5 / exact.square().mean())).floor())
    mailbox = received["contribution_mailbox"]
    sent = mailboxes.sent(_filled(exact)).view(rows, mailbox.shape[0], -1).transpose(0, 1)
    mailbox.copy_(sent.to(device))
    return {
        **received,
        "weight": weight.to(torch.bfloat16).to(device),
        "global_scale": torch.full((1,), 16.0, dtype=torch.float32, device=device),
        "packed_output": tensors.empty((rows * hidden // 2,), "uint8", device=device),
        "scale_output": tensors.empty((rows * hidden // _BLOCK,), "uint8", device=device),
    }


def _filled(values: Any) -> Any:
    """The rows with other blocks at their end, of one value each, which make the mean square nearly one.

    >>> import torch
    >>> _filled(torch.full((1, 1024), 0.5, dtype=torch.float64)).square().mean().round(decimals=2).item()
    1.0
    """
    import torch

    values[:, -_FILLERS * _BLOCK :] = 0.0
    missing = values.shape[1] - values.square().sum(dim=1)
    choices = torch.tensor([6 * s * 2.0**e for e in range(-6, 8) for s in _SURE], dtype=torch.float64)
    for number in range(_FILLERS):
        value = choices[(torch.searchsorted(choices.square(), missing, right=True) - 1).clamp(min=0)]
        values[:, (number - _FILLERS) * _BLOCK] = value
        missing = missing - value.square()
    return values


def fp4_reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64, rounded to bfloat16, and its quantisation."""
    import torch

    rows = _rows(values["contribution_mailbox"])
    scale = (rows.square().mean(dim=-1, keepdim=True) + float(config["eps"])).rsqrt()  # type: ignore[arg-type]
    normed = (rows * scale * values["weight"].double()).to(torch.bfloat16).double()
    codes, scales = blocks.quantize_fp4(
        normed, block=_BLOCK, scale_dtype=_SCALE, global_scale=float(values["global_scale"])
    )
    return {"packed_output": codes.flatten(), "scale_output": scales.flatten(), **_emptied(values)}


@kernel(
    op="flashinfer.all_gather_dual_norm",
    imports=[_DUAL_NORM],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=dual_inputs,
    passes=passes,
    outputs=["residual_output", "norm_output", "contribution_mailbox", "stage_state"],
    in_place=["contribution_mailbox", "stage_state"],
    reference=dual_reference,
    tolerance=tolerance,
)
def all_gather_dual_norm(
    hidden: int, ranks: int, most_rows: int = 64, eps: float = 1e-6, post_weight: bool = True, pdl: bool = False
) -> Any:
    """Columns of all GPUs behind ``all_reduce_publish``, the norm of whole rows, a gated residual, and its norm."""
    module = library.FLASHINFER.module(_DUAL_NORM)
    cluster = _blocks(hidden)
    tuning = module.LLAllGatherDualNormTuning(cluster_size=cluster, threads=hidden // (8 * cluster), enable_pdl=pdl)
    own = compiler(module.LLAllGatherDualNorm, **_gathered(hidden, ranks, most_rows), tuning=tuning)
    return own._compile(module._NormConstants(eps, eps, 0.0, 0.0, post_weight))


@kernel(
    op="flashinfer.all_gather_norm_fp4",
    imports=[_NORM_QUANT],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=fp4_inputs,
    passes=passes,
    outputs=["packed_output", "scale_output", "contribution_mailbox", "stage_state"],
    in_place=["contribution_mailbox", "stage_state"],
    reference=fp4_reference,
    special_values=[],  # their bytes hang on ties,
)
def all_gather_norm_fp4(hidden: int, ranks: int, most_rows: int = 64, eps: float = 1e-6, pdl: bool = False) -> Any:
    """Columns of all GPUs behind ``all_reduce_publish``, and the norm of whole rows as NVFP4."""
    module = library.FLASHINFER.module(_NORM_QUANT)
    own = compiler(module.LLAllGatherNormQuant, **_gathered(hidden, ranks, most_rows), enable_pdl=pdl)
    return own._compile(module._NormQuantConstants(eps, 0.0))


def _gathered(hidden: int, ranks: int, most_rows: int) -> dict[str, Any]:
    """What the library's objects that gather columns know: of their mailbox, how many numbers it holds."""
    generations = library.FLASHINFER.module(PROTOCOL).LAMPORT_GENERATIONS
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
