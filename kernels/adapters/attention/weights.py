"""Weights of attention, and their gradients, by the definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Attention of one sequence in float64, by head, with the gradients of its scores."""

    q: Any
    k: Any
    dout: Any
    out: Any
    logs: Any
    weights: Any
    scores: Any

    @classmethod
    def of(cls, q: Any, k: Any, v: Any, dout: Any, scale: float, causal: bool) -> Weights:
        import torch

        products = q @ k.transpose(1, 2) * scale
        if causal:
            products = products.masked_fill(torch.ones_like(products[0], dtype=torch.bool).triu(1), -torch.inf)
        logs, weights = products.logsumexp(-1), products.softmax(-1)
        out = weights @ v
        scores = weights * (dout @ v.transpose(1, 2) - (out * dout).sum(-1, keepdim=True))
        return cls(q=q, k=k, dout=dout, out=out, logs=logs, weights=weights, scores=scores)
