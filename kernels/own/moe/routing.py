"""The rows of a mixture of experts: index arithmetic for device code, and the same in torch for references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from precast.kernels.own.rows import WARP

WARPS = 32  # of a block that sorts
THREADS = WARPS * WARP
BATCH = 4  # steps of a warp whose entries are loaded together


@dataclass(frozen=True, slots=True)
class Shares:
    """How the warps of ``blocks`` blocks share entries: each takes a contiguous range, 32 in a step.

    So the entries before an entry are those of the warps before its own, and those of its own warp's earlier steps.
    """

    blocks: int

    def steps(self, entries: Any) -> Any:
        """The steps of each warp.

        >>> Shares(8).steps(16384 * 8), Shares(8).steps(8193)
        (16, 2)
        """
        once = self.blocks * THREADS
        return (entries + once - 1) // once

    def first(self, entries: Any, block: Any, warp: Any) -> Any:
        """The first entry of a warp, which may be past the last of all."""
        return (block * WARPS + warp) * self.steps(entries) * WARP


def up(value: Any, step: int) -> Any:
    """The least multiple of ``step`` that is not below a value.

    >>> up(129, 64)
    192
    """
    return (value + step - 1) // step * step


def routes(tokens: int, topk: int, experts: int, *, device: Any, seed: int) -> Any:
    """The experts of each token, of which a few have many tokens: ``topk`` others for each where there are as many.

    >>> routes(3, 2, 8, device="cpu", seed=0).shape
    torch.Size([3, 2])
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    liked = torch.rand(experts, generator=generator, device=device)
    columns = []
    for start in range(0, topk, experts):
        scores = torch.rand(tokens, experts, generator=generator, device=device) + liked
        columns.append(scores.topk(min(experts, topk - start), dim=1).indices)
    return torch.cat(columns, dim=1).int()


@dataclass(frozen=True, slots=True)
class Sorted:
    """The results of ``moe_sort``, as declared there; all are int32."""

    counts: Any
    offsets: Any
    sources: Any
    rows: Any


def sort(ids: Any, first: int, *, experts: int, align: int, masked: bool, capacity: int) -> Sorted:
    """``moe_sort`` in torch, for ``capacity`` rows.

    >>> import torch
    >>> found = sort(torch.tensor([[1, 0], [1, 7]]), 0, experts=2, align=2, masked=False, capacity=6)
    >>> found.counts.tolist(), found.offsets.tolist(), found.sources.tolist(), found.rows.tolist()
    ([1, 2], [0, 2, 4], [1, -1, 0, 2, -1, -1], [[2, 0], [3, -1]])
    """
    import torch

    flat = ids.flatten().long() - first
    key = torch.where((flat >= 0) & (flat < experts), flat, experts)
    order = key.argsort(stable=True)
    all_counts = torch.bincount(key, minlength=experts + 1)
    counts = all_counts[:experts]
    zero = counts.new_zeros(1)
    if masked:
        most = capacity // experts
        offsets = torch.arange(experts + 1, device=ids.device) * most
        ends = offsets[1:]
    else:
        offsets = torch.cat((zero, up(counts, align).cumsum(0))).clamp(max=capacity)
        ends = torch.full_like(counts, capacity)
    within = torch.arange(len(flat), device=ids.device) - torch.cat((zero, all_counts.cumsum(0)))[key[order]]
    starts, limits = torch.cat((offsets[:experts], zero)), torch.cat((ends, zero))
    row = starts[key[order]] + within
    row = torch.where(row < limits[key[order]], row, -1)
    rows = torch.empty_like(flat)
    rows[order] = row
    sources = torch.full((capacity,), -1, dtype=torch.int64, device=ids.device)
    sources[row[row >= 0]] = order[row >= 0]
    results = (torch.minimum(counts, ends - offsets[:experts]), offsets, sources, rows.view(ids.shape))
    return Sorted(*(value.int() for value in results))
