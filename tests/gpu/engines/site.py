"""A case: the compile site of an engine that one of its functions reaches, and what several cases compute in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch.nn import functional as F

from tests.gpu.attached.references import Pair, error_of, random

NOT_SERVED = ("KernelMissing", "NoCompiler")


@dataclass(frozen=True, slots=True)
class Case:
    """A function of an engine that reaches a compile site."""

    site: str
    run: Callable[[], list[Pair]]
    bound: float = 0.02

    def row(self) -> Row:
        """What became of it here."""
        torch.manual_seed(0)
        try:
            pairs = self.run()
            if pairs[0][0].is_meta:
                return Row(self.site, "recorded")
            torch.cuda.synchronize()
            error = max(error_of(*pair) for pair in pairs)
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
            return Row(self.site, "refused", reason=" ".join(reason.split())[:400])
        right = error <= self.bound
        return Row(self.site, "right" if right else "wrong", error, "" if right else f"more than {self.bound}")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    site: str
    end: str
    error: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        error = "" if self.error is None else f"{self.error:.2g}"
        return f"{self.site} | {self.end} | {error} | {self.reason}"


def integers(*values: int) -> torch.Tensor:
    return torch.tensor(values, device="cuda", dtype=torch.int32)


def product(function: Callable[..., Any], a: torch.Tensor, w: torch.Tensor) -> list[Pair]:
    """A product of rows with a weight, which is scaled so that results are around one."""
    w = (w.float() * a.shape[1] ** -0.5).to(w.dtype)
    return [(function(a, w), a.float() @ w.float().T)]


def attention(module: str, *, causal: bool) -> Callable[[], list[Pair]]:
    """Two sequences of different lengths, four query heads for each key head."""

    def case() -> list[Pair]:
        q, k, v = random(384, 8, 128), random(384, 2, 128), random(384, 2, 128)
        offsets = integers(0, 128, 384)
        out = import_module(module).flash_attn_varlen_func(
            q, k, v, cu_seqlens_q=offsets, cu_seqlens_k=offsets, max_seqlen_q=256, max_seqlen_k=256, causal=causal
        )
        parts = [_attended(q[a:b], k[a:b], v[a:b], causal=causal) for a, b in ((0, 128), (128, 384))]
        return [(_first(out), torch.cat(parts))]

    return case


def attention_paged(module: str) -> Callable[[], list[Pair]]:
    """Two requests of one token each, whose keys are in pages."""

    def case() -> list[Pair]:
        pages, size, lengths = 4, 128, (200, 512)
        q, k, v = random(2, 8, 128), random(2 * pages, size, 2, 128), random(2 * pages, size, 2, 128)
        table = torch.arange(2 * pages, device="cuda", dtype=torch.int32).view(2, pages)
        out = import_module(module).flash_attn_varlen_func(
            q, k, v, cu_seqlens_q=integers(0, 1, 2), seqused_k=integers(*lengths), max_seqlen_q=1, max_seqlen_k=512,
            page_table=table, causal=True,
        )  # fmt: skip
        keys, values = (x.view(2, pages * size, 2, 128) for x in (k, v))
        parts = [_attended(q[i : i + 1], keys[i, :n], values[i, :n], causal=False) for i, n in enumerate(lengths)]
        return [(_first(out), torch.cat(parts))]

    return case


def _first(out: Any) -> torch.Tensor:
    first: torch.Tensor = out[0] if isinstance(out, tuple) else out
    return first


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    heads = [x.float().transpose(0, 1)[None] for x in (q, k, v)]
    return F.scaled_dot_product_attention(*heads, is_causal=causal, enable_gqa=True)[0].transpose(0, 1)
