"""FlashAttention-4's front ends, each on a small problem, beside the same in torch: see ``warm_flashinfer``."""

from __future__ import annotations

import itertools

import flash_attn.cute.interface as attention
import torch
from torch.nn import functional as F

from tests.gpu.attached.references import Cases, Pair, gradients, print_lines, random

STARTS = (0, 100, 384, 385)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
    """Attention over one sequence, [batch, length, heads, width], in float32; the last queries see all keys."""
    q, k, v = (one.float().transpose(1, 2) for one in (q, k, v))
    ahead = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])
    mask = ahead if causal else None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2)


def alone(found: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return found[0] if isinstance(found, tuple) else found


def dense() -> list[Pair]:
    q, k, v = random(2, 512, 8, 128), random(2, 512, 2, 128), random(2, 512, 2, 128)
    return [(alone(attention.flash_attn_func(q, k, v, causal=True)), attended(q, k, v, causal=True))]


def dense_not_causal() -> list[Pair]:
    q, k, v = (random(2, 512, 8, 64) for _ in range(3))
    return [(alone(attention.flash_attn_func(q, k, v)), attended(q, k, v))]


def backward() -> list[Pair]:
    q, k, v = (random(2, 512, 8, 128).requires_grad_() for _ in range(3))
    found = alone(attention.flash_attn_func(q, k, v, causal=True))
    return gradients(found, attended(q, k, v, causal=True), (q, k, v), random(2, 512, 8, 128))


def varlen() -> list[Pair]:
    q, k, v = random(STARTS[-1], 8, 128), random(STARTS[-1], 2, 128), random(STARTS[-1], 2, 128)
    starts = torch.tensor(STARTS, dtype=torch.int32, device="cuda")
    found = alone(
        attention.flash_attn_varlen_func(
            q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=284, max_seqlen_k=284, causal=True
        )
    )
    spans = list(itertools.pairwise(STARTS))
    wanted = [attended(q[None, i:j], k[None, i:j], v[None, i:j], causal=True)[0] for i, j in spans]
    return [(found, torch.cat(wanted))]


def split() -> list[Pair]:
    q, k, v = random(2, 1, 8, 128), random(2, 2048, 2, 128), random(2, 2048, 2, 128)
    return [(alone(attention.flash_attn_func(q, k, v, num_splits=4)), attended(q, k, v))]


def paged() -> list[Pair]:
    q, k, v = random(2, 64, 8, 128), random(8, 128, 2, 128), random(8, 128, 2, 128)
    table = torch.arange(8, dtype=torch.int32, device="cuda").view(2, 4)
    used = torch.tensor([512, 512], dtype=torch.int32, device="cuda")
    found = alone(
        attention.flash_attn_varlen_func(
            q, k, v, max_seqlen_q=64, max_seqlen_k=512, seqused_k=used, page_table=table, causal=True
        )
    )
    return [(found, attended(q, k.view(2, 512, 2, 128), v.view(2, 512, 2, 128), causal=True))]


CASES: Cases = (
    (dense, 0.02), (dense_not_causal, 0.02), (backward, 0.03), (varlen, 0.02), (split, 0.02), (paged, 0.02),
)  # fmt: skip

if __name__ == "__main__":
    print_lines(CASES)
