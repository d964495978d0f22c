"""Inputs, and what front ends compute, in torch: norms, blocks of scaled codes, one step of a delta rule;
and the line that compares them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

Pair = tuple[torch.Tensor, torch.Tensor]
Cases = tuple[tuple[Callable[[], list[Pair]], float], ...]
BF16 = torch.bfloat16
EPS = 1e-6
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def random(*shape: int, dtype: torch.dtype = BF16, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def normed(x: torch.Tensor, weight: torch.Tensor, offset: float = 0.0) -> torch.Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS) * (weight.float() + offset)


def blocks(values: torch.Tensor, scales: torch.Tensor, size: int) -> torch.Tensor:
    rows, columns = values.shape
    return (values.view(rows, columns // size, size) * scales.view(rows, columns // size, 1)).view(rows, columns)


def from_fp4(packed: torch.Tensor) -> torch.Tensor:
    packed = packed.view(torch.uint8)
    codes = torch.stack((packed & 15, packed >> 4), -1).flatten(-2).long()
    values = torch.tensor(E2M1, device="cuda")[codes & 7]
    return torch.where(codes > 7, -values, values)


def delta_rule_inputs(batch: int, heads: int) -> dict[str, torch.Tensor]:
    return {
        "q": random(batch, 1, heads, 128), "k": random(batch, 1, heads, 128), "v": random(batch, 1, heads, 128),
        "A_log": random(heads, dtype=torch.float32), "a": random(batch, 1, heads),
        "dt_bias": random(heads, dtype=torch.float32), "b": random(batch, 1, heads),
    }  # fmt: skip


def delta_rule(state: torch.Tensor, given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of the gated delta rule on a state [batch, heads, K, V]."""
    q, k, v, a, b = (given[name].float().squeeze(1) for name in ("q", "k", "v", "a", "b"))
    q, k = F.normalize(q, dim=-1) * 128**-0.5, F.normalize(k, dim=-1)
    decay = torch.exp(-given["A_log"].exp() * F.softplus(a + given["dt_bias"]))
    state = state * decay[..., None, None]
    change = (v - torch.einsum("bhk,bhkv->bhv", k, state)) * b.sigmoid()[..., None]
    state = state + torch.einsum("bhk,bhv->bhkv", k, change)
    return torch.einsum("bhk,bhkv->bhv", q, state).unsqueeze(1), state


def kda_step(
    state: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
) -> torch.Tensor:
    """One step of Kimi delta attention on a state [batch, heads, V, K]: what is read."""
    q, k = F.normalize(q.float(), dim=-1) * 128**-0.5, F.normalize(k.float(), dim=-1)
    now = state * g.float().exp()[:, :, None, :]
    change = (v.float() - torch.einsum("bhvk,bhk->bhv", now, k)) * beta.float()[..., None]
    now = now + torch.einsum("bhv,bhk->bhvk", change, k)
    return torch.einsum("bhvk,bhk->bhv", now, q)


def error_of(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float((got.float() - wanted).abs().max() / wanted.abs().max().clamp(min=1e-9))


def line_of(case: Callable[[], list[Pair]], bound: float) -> dict[str, Any]:
    """What a front end gave, for a line."""
    torch.manual_seed(0)
    line: dict[str, Any] = {"front_end": case.__name__}
    try:
        pairs = case()
        if pairs[0][0].is_meta:
            return {**line, "ran_without_memory": True}
        errors = [error_of(*pair) for pair in pairs]
    except Exception as error:
        return {**line, "raised": f"{type(error).__name__}: {error}"[:300]}
    return {**line, "error": max(errors), "right": max(errors) <= bound}


def gradients(
    got: torch.Tensor, wanted: torch.Tensor, leaves: Sequence[torch.Tensor], into: torch.Tensor
) -> list[Pair]:
    """A result and its gradients, each beside the same of the reference. ``into`` is the gradient of the result."""
    found = torch.autograd.grad(got, leaves, into)
    if got.is_meta:
        return [(got, wanted)]
    return [(got, wanted), *zip(found, torch.autograd.grad(wanted, leaves, into.to(wanted.dtype)), strict=True)]


def print_lines(cases: Cases) -> None:
    """Print a line for each front end, or for those that the command line names."""
    for case, bound in cases:
        if case.__name__ in sys.argv[1:] or not sys.argv[1:]:
            print(json.dumps(line_of(case, bound)), flush=True)
