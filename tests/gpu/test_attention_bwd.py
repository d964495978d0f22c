"""The gradients of attention: its parts launched one after the other, against torch's own differentiation."""

from __future__ import annotations

from typing import Any

import pytest

from precast import loader
from tests.gpu import variants

CASES = [(op, v) for op, v in variants.chained() if op == "attention_bwd.main"]
LENGTHS = ([1, 1], [113, 7], [64, 128], [300, 1031], [2048, 2048])


def blocks(config: Any, major: int) -> tuple[int, int]:
    """How many queries and how many keys make a block."""
    if major == 9:
        return (128 if config["head_dim"] == 64 else 64 if config["causal"] else 80), 128
    return 128, 256 if config["two_cta"] else 128


def rounded(config: Any, lengths: list[int], block: int) -> tuple[tuple[int, ...], int]:
    """The leading dimension, if there is one, and the last, of what is kept by blocks."""
    if config["layout"] == "varlen":
        return (), (sum(lengths) + (len(lengths) + 1) * block - 1) // block * block
    return (len(lengths),), -(-lengths[0] // block) * block


# torch differentiates in a thread of its own, which says this where the first product of the process is there.
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS, but there was no current CUDA context:UserWarning")
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=variants.name)
def test_gradients(case: Any, lengths: list[int]) -> None:
    import torch

    config = dict(case[1].artifact.config)
    varlen, group, size = config["layout"] == "varlen", config["heads_per_kv"], config["head_dim"]
    if not varlen:
        lengths = [lengths[-1]] * 2
    dtype, heads = getattr(torch, config["dtype"]), 2 * group
    tokens = (sum(lengths),) if varlen else (2, lengths[0])

    def make(count: int) -> Any:
        return torch.randn(*tokens, count, size, device="cuda", dtype=dtype)

    q, k, v, dout = make(heads), make(2), make(2), make(heads)
    out, lse = torch.empty_like(q), torch.empty((*tokens[:-1], heads, tokens[-1]), device="cuda")
    expected = [torch.empty_like(t, dtype=torch.float64) for t in (q, k, v)]
    for place in sequences(lengths, varlen):
        values, logs, grads = attend(q[place], k[place], v[place], dout[place], group, config["causal"])
        out[place] = values
        (lse[:, place] if varlen else lse[place]).copy_(logs)
        for whole, grad in zip(expected, grads, strict=True):
            whole[place] = grad
    found = launch(config, q, k, v, out, dout, lse, lengths)
    torch.cuda.synchronize()
    for name, mine, right in zip("qkv", found, expected, strict=True):
        # Over a single key the gradient of a query is zero, so the error may be as large as one rounding.
        least = 2.0**-8 * right.numel() ** 0.5
        error = (mine.double() - right).norm() / max(right.norm().item(), least)
        assert error < 0.01, f"d{name} is off by {error:.3g} of its norm"
        worst = (mine.double() - right).abs().max() / max(right.abs().max().item(), 2.0**-6)
        assert worst < 0.03, f"d{name} is off by {worst:.3g} of its largest value somewhere"


def sequences(lengths: list[int], varlen: bool) -> list[Any]:
    if not varlen:
        return list(range(len(lengths)))
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def attend(q: Any, k: Any, v: Any, dout: Any, group: int, causal: bool) -> tuple[Any, Any, Any]:
    """Attention of one sequence in float64, its logarithms and its gradients."""
    import torch

    q, k, v = (t.double().requires_grad_() for t in (q, k, v))
    keys, values = (t.repeat_interleave(group, dim=1) for t in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, keys) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    out = torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), values)
    return out.detach(), scores.logsumexp(-1).detach(), torch.autograd.grad(out, (q, k, v), dout.double())


def turns_of(config: Any, heads: int, kv_heads: int, lengths: list[int], block: tuple[int, int]) -> dict[str, Any]:
    """Whose turn it is to add to a block."""
    import torch

    def zeros(heads: int, rows: int, step: int, last: int) -> Any:
        return torch.zeros((len(lengths), heads, rows // step, last), device="cuda", dtype=torch.int32)

    pair = 2 if config["two_cta"] else 1
    longest_q, longest_k = (-(-max(lengths) // size) * size for size in block)
    found = {"dq_turns": zeros(heads, longest_q, block[0], pair)}
    if config["heads_per_kv"] > 1:
        found |= {name: zeros(kv_heads, longest_k, block[1] // pair, 2) for name in ("dk_turns", "dv_turns")}
    return found


def launch(config: Any, q: Any, k: Any, v: Any, out: Any, dout: Any, lse: Any, lengths: list[int]) -> tuple[Any, ...]:
    """The chain that the docstring of ``attention_bwd`` describes."""
    import torch

    varlen, group, size = config["layout"] == "varlen", config["heads_per_kv"], config["head_dim"]
    scale = size**-0.5
    block_q, block_k = blocks(config, torch.cuda.get_device_capability()[0])
    batch, count = rounded(config, lengths, block_q)
    poisoned = {"device": "cuda", "dtype": torch.float32}
    dpsum, lse_log2 = (torch.full((*batch, q.shape[-2], count), torch.nan, **poisoned) for _ in range(2))
    accum = torch.full((*batch, q.shape[-2], count * size), torch.nan, **poisoned)
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
    of_q = {"cu_seqlens_q": starts} if varlen else {}
    both = {"cu_seqlens_q": starts, "cu_seqlens_k": starts} if varlen else {}

    def part(name: str) -> Any:
        return loader.get(f"attention_bwd.{name}", config)

    part("prepare")(
        out=out, dout=dout, dpsum=dpsum, lse=lse, lse_log2=lse_log2, accum=accum, softmax_scale=scale, **of_q
    )
    turns = turns_of(config, q.shape[-2], k.shape[-2], lengths, (block_q, block_k)) if config["deterministic"] else {}
    dq, dk, dv = (torch.full_like(t, torch.nan) for t in (q, k, v))
    to_k, to_v = dk, dv
    if group > 1:
        batch, count = rounded(config, lengths, block_k)
        to_k, to_v = (torch.zeros((*batch, k.shape[-2], count * size), **poisoned) for _ in range(2))
    part("main")(
        q=q, k=k, v=v, dout=dout, lse=lse_log2, dpsum=dpsum, accum=accum, dk=to_k, dv=to_v, softmax_scale=scale,
        **both, **turns,
    )  # fmt: skip
    part("dq")(accum=accum, dq=dq, scale=scale, **of_q)
    if group > 1:
        part("dkv")(accum=to_k, dq=dk, scale=scale, **of_q)  # keys have the lengths that queries have
        part("dkv")(accum=to_v, dq=dv, scale=1.0, **of_q)
    return dq, dk, dv
