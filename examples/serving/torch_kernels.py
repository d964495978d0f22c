"""The same functions in torch: what the kernels' results are compared with, and their stand-in without a GPU."""

from __future__ import annotations

import torch
from torch.nn import functional

from serving.shape import Shape
from serving.step import Step


class TorchKernels:
    """On any device, in the dtype of the weights. Sequences are taken one after another, in loops: it is not quick."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, x.shape[-1:], weight, self._shape.eps)

    def add_norm(self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        residual += x
        return self.norm(residual, weight)

    def linear(self, x: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        # One row at a time: a product of other rows may be summed in another order, and a sequence's result must not
        # depend on what shares its step.
        return torch.cat([functional.linear(row, weight) for row in x.split(1)]).to(dtype)

    def rotary(
        self, qkv: torch.Tensor, angles: torch.Tensor, step: Step, k_cache: torch.Tensor, v_cache: torch.Tensor
    ) -> torch.Tensor:
        shape = self._shape
        parts = qkv.unflatten(1, (-1, shape.size)).split((shape.heads, shape.kv_heads, shape.kv_heads), dim=1)
        cos, sin = angles[step.positions].to(qkv.dtype).unsqueeze(1).chunk(2, dim=-1)
        q, k = (_turned(part, cos, sin) for part in parts[:2])
        k_cache.view(-1, *k.shape[1:])[step.slots] = k
        v_cache.view(-1, *k.shape[1:])[step.slots] = parts[2]
        return q.flatten(1)

    def attention(self, q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, step: Step) -> torch.Tensor:
        shape, found = self._shape, []
        starts, used = step.starts.tolist(), step.used.tolist()
        for number, length in enumerate(used):
            queries = q[starts[number] : starts[number + 1]].unflatten(1, (shape.heads, shape.size))
            keys, values = (cache[step.table[number].long()].flatten(0, 1)[:length] for cache in (k_cache, v_cache))
            seen = torch.ones(len(queries), length, dtype=torch.bool, device=q.device).tril(length - len(queries))
            rows = functional.scaled_dot_product_attention(
                *(x.transpose(0, 1).unsqueeze(0) for x in (queries, keys, values)), attn_mask=seen, enable_gqa=True
            )
            found.append(rows.squeeze(0).transpose(0, 1).flatten(1))
        return torch.cat(found)

    def act_and_mul(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return functional.silu(gate) * up


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
