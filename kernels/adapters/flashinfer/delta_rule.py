"""The delta rule, which FlashInfer's kernels of linear attention compute: its definition, and what their tests have in
common.

A head keeps a state ``S`` of ``[value, key]``. A token decays it, ``S = S * decay``, moves what the key finds in it
towards the value, ``S += beta * (v - S k) k'``, and reads ``out = scale * S q``.
"""

from __future__ import annotations

from typing import Any

from precast.kernels.authoring.declare import Tolerance
from precast.kernels.authoring.dtypes import to_torch
from precast.loader.contract.format.config import Config

EPS = 1e-6
"""What is added to the squared length of a query or a key before its root."""

FLOAT32 = Tolerance(rtol=2.0**-16, atol=2.0**-14, ulps=0.75)
"""Arithmetic in float32 with approximate exponentials, of values about one in size; a rounding where it is kept."""


class Draw:
    """Normally distributed tensors, one after another."""

    def __init__(self, device: Any, seed: int) -> None:
        import torch

        self._device = device
        self.generator = torch.Generator(device=device).manual_seed(seed)

    def __call__(self, *shape: int, dtype: str = "bfloat16") -> Any:
        import torch

        return torch.randn(shape, generator=self.generator, device=self._device).to(to_torch(dtype))


def step(state: Any, q: Any, k: Any, v: Any, decay: Any, beta: Any) -> tuple[Any, Any]:
    """The states behind one token of each row, and what the queries read: the definition, for any leading dimensions.

    >>> import torch
    >>> one = torch.ones(1)
    >>> step(torch.zeros(1, 1), one, one, 3 * one, one, torch.tensor(1.0))
    (tensor([[3.]]), tensor([3.]))
    """
    state = state * decay.unsqueeze(-2)
    held = (state @ k.unsqueeze(-1)).squeeze(-1)
    state = state + beta.unsqueeze(-1).unsqueeze(-1) * (v - held).unsqueeze(-1) * k.unsqueeze(-2)
    return state, (state @ q.unsqueeze(-1)).squeeze(-1)


def unit(x: Any, enabled: bool) -> Any:
    """Vectors, scaled to length one if enabled."""
    return x * (x.square().sum(dim=-1, keepdim=True) + EPS).rsqrt() if enabled else x


def tolerance(config: Config) -> Tolerance:
    """All arithmetic is in float32."""
    return FLOAT32
