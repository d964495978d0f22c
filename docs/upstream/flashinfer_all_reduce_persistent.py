"""The kernel of flashinfer-all-reduce-persistent.md: a sum of rows over two GPUs and its norm, by blocks that stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.composition import Multicast, Window
from precast.kernels.authoring.declare import Problem, kernel
from precast.loader.contract.format.config import Config

_RANKS, _HIDDEN, _ROOM, _EPS = 2, 2048, 8, 1e-6
_BEFORE = 5  # launches


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """What both ranks have: rows, memory that they share, and counters behind some launches."""
    import torch

    rows, slots = problem["rows"], _ROOM // _RANKS

    def vectors(number: int) -> Any:
        return tensors.normal((_RANKS, rows * _HIDDEN), "bfloat16", device=device, seed=seed + number)

    return {
        "contributions": vectors(0),
        "gamma": tensors.normal((_HIDDEN,), "bfloat16", device=device, seed=seed + 1),
        "locals": vectors(2),
        "prenorm": vectors(3).view(torch.int16),
        "norm_outputs": vectors(4),
        "ready": torch.full((_RANKS, slots), _BEFORE * _RANKS, dtype=torch.int32),
        "processed": torch.full((_RANKS, slots * _RANKS), _BEFORE * _RANKS, dtype=torch.int32),
        "unused": torch.zeros(rows * _HIDDEN, dtype=torch.bfloat16),
        "no_indices": torch.zeros(1, dtype=torch.int32),
        "rows": rows,
    }


def passes(config: Config, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The arguments of each rank."""
    import torch

    ready, shape = values["ready"], (_ROOM * _HIDDEN,)
    return [
        {
            "routed_output": values["unused"],
            "expert_weights": values["unused"],
            "permuted_indices": values["no_indices"],
            "shared_output": values["contributions"][rank],
            "residual_source": values["unused"],
            "local_contributions": Window(values["locals"][rank], shape),
            "prenorm_mailbox": Window(values["prenorm"][rank].view(torch.bfloat16), shape),
            "residual_output": values["unused"],
            "norm_output": values["norm_outputs"][rank],
            "ready_counter_peer_addresses": torch.tensor([each.data_ptr() for each in ready], dtype=torch.int64),
            "ready_counters": ready[rank].view(torch.uint32),
            "processed_counters": values["processed"][rank].view(torch.uint32),
            "local_contributions_multicast_address": Multicast(values["locals"]),
            "prenorm_mailbox_multicast_address": Multicast(values["prenorm"]),
            "m": values["rows"],
        }
        for rank in range(_RANKS)
    ]


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Each row is summed by the rank whose turn it is, and both have the same."""
    import torch

    parts = values["contributions"].view(_RANKS, -1, _HIDDEN)
    sums = parts.float().sum(dim=0).bfloat16()
    sums = torch.where(sums == 0, 0.0, sums.float()).bfloat16()  # senders store no negative zeros
    wide = sums.double()
    normed = wide * (wide.square().mean(dim=-1, keepdim=True) + _EPS).rsqrt() * values["gamma"].double()
    ready, processed = values["ready"].clone(), values["processed"].clone()
    for row in range(values["rows"]):
        slot = row // _RANKS
        ready[row % _RANKS, slot] += _RANKS
        processed[row % _RANKS, slot * _RANKS : (slot + 1) * _RANKS] += _RANKS
    return {
        "locals": values["contributions"],
        "prenorm": sums.view(torch.int16).view(1, -1).expand(_RANKS, -1),
        "norm_outputs": normed.view(1, -1).expand(_RANKS, -1),
        "ready": ready,
        "processed": processed,
    }


@kernel(
    op="upstream.all_reduce_persistent",
    targets=["sm_100a"],
    problems=lambda config: [{"rows": 2}],
    inputs=inputs,
    passes=passes,
    rank_key="rank",
    outputs=["locals", "prenorm", "norm_outputs", "ready", "processed"],
    in_place=["ready", "processed"],
    reference=reference,
    tolerance=lambda config: rounding.stored("bfloat16", 2.0**-20),
    special_values=[],
)
def all_reduce_persistent(rank: int) -> Any:
    """One of two ranks: rows of 2048 bfloat16, without a residual."""
    import torch
    from flashinfer.comm.mnnvl_cutedsl.kernel_ht import protocol

    class Compiler(protocol.HTProtocol):  # type: ignore[misc]
        """Only compiles: the initialiser of the class itself connects to the other GPUs."""

        def __init__(self) -> None:
            self.hidden_size, self.tp_size, self.rank, self.capacity_m = _HIDDEN, _RANKS, rank, _ROOM
            self.rms_epsilon, self.weight_bias, self.output_dtype = _EPS, 0.0, torch.bfloat16
            self.add_residual = self.write_residual_output = self.dynamic_fp8 = self.write_norm_output = False
            self.apply_rms_norm = True

    tuning = protocol.HTAllReduceTuning(consumer_threads=128, vectors_per_thread=2)
    return Compiler()._compile_all_reduce(tuning)
