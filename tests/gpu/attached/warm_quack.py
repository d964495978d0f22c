"""quack's front ends, each on a small problem, beside the same in torch: ``warm_flashinfer`` says how to run it.

What a front end's backward pass compiles is recorded and checked too.
"""

from __future__ import annotations

import quack
import torch
from quack.gemm_interface import gemm as quack_gemm
from quack.gemm_interface import gemm_act as quack_gemm_act
from quack.gemm_interface import gemm_add as quack_gemm_add
from quack.gemm_interface import gemm_dact as quack_gemm_dact
from quack.gemm_interface import gemm_symmetric as quack_gemm_symmetric
from quack.linear import linear_func
from quack.mlp import mlp_func
from quack.rmsnorm import layernorm_fwd
from quack.rotary import apply_rotary_emb
from quack.topk import topk as quack_topk
from torch.nn import functional as F

from tests.gpu.attached.references import BF16, EPS, Cases, Pair, gradients, normed, print_lines, random


def leaf(*shape: int, dtype: torch.dtype = BF16, scale: float = 1.0) -> torch.Tensor:
    return random(*shape, dtype=dtype, scale=scale).requires_grad_()


def rmsnorm() -> list[Pair]:
    x, w, into = leaf(64, 1024), leaf(1024), random(64, 1024)
    return gradients(quack.rmsnorm(x, w), normed(x, w), (x, w), into)


def rmsnorm_residual() -> list[Pair]:
    x, residual, w = random(64, 1024), random(64, 1024), random(1024)
    out, total = quack.rmsnorm(x, w, residual=residual, prenorm=True)
    return [(out, normed(x.float() + residual.float(), w)), (total, x.float() + residual.float())]


def layernorm() -> list[Pair]:
    x, w = random(64, 1024), random(1024, dtype=torch.float32)
    return [(layernorm_fwd(x, w, eps=EPS), F.layer_norm(x.float(), (1024,), w, None, EPS))]


def softmax() -> list[Pair]:
    x, into = leaf(64, 2048, dtype=torch.float32), random(64, 2048, dtype=torch.float32)
    return gradients(quack.softmax(x), x.softmax(-1), (x,), into)


def cross_entropy() -> list[Pair]:
    x, target = leaf(64, 2048, dtype=torch.float32), torch.arange(64, device="cuda")
    into = random(64, dtype=torch.float32)
    wanted = F.cross_entropy(x, target, reduction="none")
    return gradients(quack.cross_entropy(x, target, reduction="none"), wanted, (x,), into)


def topk() -> list[Pair]:
    x = random(64, 1024, dtype=torch.float32)
    values, _ = quack_topk(x, 16)
    return [(values, x.topk(16).values)]


def rotary() -> list[Pair]:
    x, angles = random(2, 128, 8, 128), random(128, 64, dtype=torch.float32)
    cos, sin = angles.cos(), angles.sin()
    first, second = x.float().chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    wanted = torch.cat((first * c - second * s, second * c + first * s), -1)
    return [(apply_rotary_emb(x, cos, sin), wanted)]


def gemm() -> list[Pair]:
    a, b = random(200, 512), random(768, 512).t()
    return [(quack_gemm(a, b, tuned=False), a.float() @ b.float())]


def gemm_split_k() -> list[Pair]:
    a, b = random(64, 4096), random(256, 4096).t()
    return [(quack_gemm(a, b, tuned=False, split_k=4), a.float() @ b.float())]


def gemm_add() -> list[Pair]:
    a, b, c = random(200, 512), random(768, 512).t(), random(200, 768)
    return [(quack_gemm_add(a, b, c, tuned=False), a.float() @ b.float() + c.float())]


def gemm_act() -> list[Pair]:
    a, b = random(200, 512, scale=0.2), random(768, 512, scale=0.2).t()
    before, after = quack_gemm_act(a, b, activation="relu", tuned=False)
    wanted = a.float() @ b.float()
    return [(before, wanted), (after, wanted.relu())]


def gemm_gated() -> list[Pair]:
    a, b = random(200, 512, scale=0.2), random(768, 512, scale=0.2).t()
    _, after = quack_gemm_act(a, b, activation="swiglu", tuned=False)
    gate, up = (a.float() @ b.float()).view(200, 384, 2).unbind(-1)
    return [(after, F.silu(gate) * up)]


def gemm_dact() -> list[Pair]:
    a, b, before = random(200, 512), random(768, 512).t(), random(200, 768)
    dx, after = quack_gemm_dact(a, b, before, activation="relu", tuned=False)
    return [(dx, (a.float() @ b.float()) * (before > 0)), (after, before.float().relu())]


def gemm_symmetric() -> list[Pair]:
    a = random(256, 512)
    found = quack_gemm_symmetric(a, a.t())
    out = next(one for one in (found if isinstance(found, tuple) else (found,)) if one is not None)
    return [(out, a.float() @ a.float().t())]


def linear() -> list[Pair]:
    x, w, into = leaf(128, 512), leaf(768, 512, scale=0.05), random(128, 768)
    return gradients(linear_func(x, w, tuned=False), x.float() @ w.float().t(), (x, w), into)


def mlp() -> list[Pair]:
    x, up, down, into = leaf(128, 512), leaf(1024, 512, scale=0.05), leaf(512, 1024, scale=0.05), random(128, 512)
    wanted = (x.float() @ up.float().t()).relu().square() @ down.float().t()
    return gradients(mlp_func(x, up, down, "relu_sq", tuned=False), wanted, (x, up, down), into)


CASES: Cases = (
    (rmsnorm, 0.03), (rmsnorm_residual, 0.02), (layernorm, 0.02), (softmax, 1e-3), (cross_entropy, 1e-3),
    (topk, 1e-3), (rotary, 0.02), (gemm, 0.02), (gemm_split_k, 0.02), (gemm_add, 0.02), (gemm_act, 0.02),
    (gemm_gated, 0.03), (gemm_dact, 0.02), (gemm_symmetric, 0.02), (linear, 0.03), (mlp, 0.04),
)  # fmt: skip

if __name__ == "__main__":
    print_lines(CASES)
