"""What a layer launches: quack's and FlashAttention-4's own functions, and ops of precast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from serving.shape import Shape
from serving.step import Step

Own = Callable[[str, Mapping[str, object]], Callable[..., object]]
"""Gives a kernel of an op for a config: out of a cache, or compiled now."""


class Kernels(Protocol):
    """The functions that the layers are made of."""

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Rows divided by their size, times the weight."""
        ...

    def add_norm(self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Add ``x`` to the residual, in place; the norm of the sum."""
        ...

    def linear(self, x: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """``x @ weight.T``."""
        ...

    def rotary(
        self, qkv: torch.Tensor, angles: torch.Tensor, step: Step, k_cache: torch.Tensor, v_cache: torch.Tensor
    ) -> torch.Tensor:
        """The rotated queries; rotated keys, and values, go into the pages."""
        ...

    def attention(self, q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, step: Step) -> torch.Tensor:
        """Causal attention of each part to the pages of its sequence."""
        ...

    def act_and_mul(self, x: torch.Tensor) -> torch.Tensor:
        """SiLU of one half of each row, times the other."""
        ...


class LibraryKernels:
    """The kernels of a GPU. ``own`` gives those of precast; the libraries' are called as any program calls them."""

    def __init__(self, shape: Shape, own: Own) -> None:
        import flash_attn.cute.interface as flash_attention
        import quack
        from quack.gemm_interface import gemm

        self._shape, self._norm, self._gemm = shape, quack.rmsnorm, gemm
        self._attention = flash_attention.flash_attn_varlen_func
        heads = {"q_heads": shape.heads, "kv_heads": shape.kv_heads, "head_dim": shape.size, "page": shape.page}
        self._rotary = own("rotary_paged", {"dtype": "bfloat16", **heads})
        self._add_norm = own("fused_add_rmsnorm", {"dtype": "bfloat16", "hidden": shape.hidden})
        self._act = own("act_and_mul", {"dtype": "bfloat16", "width": shape.inter, "activation": "silu"})

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self._norm(x, weight, eps=self._shape.eps)
        return found

    def add_norm(self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        self._add_norm(x, residual, weight, x, self._shape.eps)
        return x

    def linear(self, x: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        found: torch.Tensor = self._gemm(x, weight.T, out_dtype=dtype, tuned=False)
        return found

    def rotary(
        self, qkv: torch.Tensor, angles: torch.Tensor, step: Step, k_cache: torch.Tensor, v_cache: torch.Tensor
    ) -> torch.Tensor:
        q = torch.empty(len(qkv), self._shape.queries, dtype=qkv.dtype, device=qkv.device)
        without = (None,) * 5  # norms of heads, and scales of a cache in float8
        self._rotary(qkv, angles, step.positions, step.slots, q, k_cache, v_cache, *without)
        return q

    def attention(self, q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, step: Step) -> torch.Tensor:
        found: Any = self._attention(
            q.unflatten(1, (self._shape.heads, self._shape.size)), k_cache, v_cache, cu_seqlens_q=step.starts,
            max_seqlen_q=step.longest, seqused_k=step.used, page_table=step.table, causal=True,
        )  # fmt: skip
        return (found[0] if isinstance(found, tuple) else found).flatten(1)

    def act_and_mul(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), self._shape.inter, dtype=x.dtype, device=x.device)
        self._act(x, out)
        return out


def from_cache(op: str, config: Mapping[str, object]) -> Callable[..., object]:
    """A kernel that was compiled before."""
    from precast import loader

    return loader.get(op, config)


def compiled_now(op: str, config: Mapping[str, object]) -> Callable[..., object]:
    """The same kernel, compiled in this process: needs the DSL and the builder."""
    from importlib.metadata import entry_points

    (found,) = entry_points(group="precast.kernels", name=op)
    kernel: Callable[..., object] = found.load()(**config)
    return kernel
