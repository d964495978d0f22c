"""What ``attention.py`` compares with: torch's attention of the same inputs, by every backend that may be the fastest.

Dense: torch by its own choice, by cuDNN, by FlashAttention. Packed: torch's functions for packed sequences by cuDNN and
by FlashAttention, its nested tensors by their own choice, and cuDNN on a padded batch, whose padding is not timed.
Lengths are numbers of the host, made before anything is captured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attention_shapes import Shape

DENSE = ("torch", "torch by cuDNN", "torch by FlashAttention")
PACKED = ("torch packed by FlashAttention", "torch packed by cuDNN", "torch nested")
PADDED = "torch padded by cuDNN"


def names(shape: Shape) -> tuple[str, ...]:
    """The peers of a shape.

    A padded batch is one only with a mask: a query then sees no key behind its own, so what is behind a sequence
    changes none of its results.

    >>> names(Shape(model="", heads=1, group=1, size=64, causal=True, batch=1, length=3))
    ('torch', 'torch by cuDNN', 'torch by FlashAttention')
    """
    if shape.layout == "dense":
        return DENSE
    return (*PACKED, PADDED) if shape.causal else PACKED


@dataclass(frozen=True, slots=True)
class Peer:
    """An alternative: ``run`` is timed, and ``result`` makes of what it returns what our ``out`` is, not timed."""

    run: Callable[[], Any]
    result: Callable[[Any], Any]


def peer(name: str, shape: Shape, values: dict[str, Any]) -> Peer:
    """One of ``names``; one that does not take the shape raises here, or when it is called."""
    if name == PADDED:
        padded = [_padded(shape, values[key]).transpose(1, 2) for key in ("q", "k", "v")]
        return Peer(_sdpa(shape, *padded, "CUDNN_ATTENTION"), lambda found: _unpadded(shape, found.transpose(1, 2)))
    if name == "torch nested":
        return Peer(_nested(shape, values), lambda found: found.transpose(1, 2).values())
    if name in PACKED:
        return Peer(_packed(name, shape, values), lambda found: found[0])
    q, k, v = (values[key].transpose(1, 2) for key in ("q", "k", "v"))
    backend = {"torch by cuDNN": "CUDNN_ATTENTION", "torch by FlashAttention": "FLASH_ATTENTION"}.get(name)
    return Peer(_sdpa(shape, q, k, v, backend), lambda found: found.transpose(1, 2))


def _sdpa(shape: Shape, q: Any, k: Any, v: Any, backend: str | None) -> Callable[[], Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    options = {"is_causal": shape.causal, "scale": shape.size**-0.5, "enable_gqa": shape.group > 1}

    def own() -> Any:
        return scaled_dot_product_attention(q, k, v, **options)

    def by_name() -> Any:
        with sdpa_kernel([getattr(SDPBackend, str(backend))]):
            return own()

    return by_name if backend else own


def _packed(name: str, shape: Shape, values: dict[str, Any]) -> Callable[[], Any]:
    """What ``torch.nn.attention.varlen`` calls. It takes no heads that share keys by cuDNN, which get copies here."""
    import torch

    starts = values["cu_seqlens_q"]
    longest, scale = max(shape.lengths), shape.size**-0.5
    ends = (starts, starts, longest, longest)
    aten = torch.ops.aten
    if name == "torch packed by FlashAttention":
        q, k, v = (values[key] for key in ("q", "k", "v"))
        return lambda: aten._flash_attention_forward(q, k, v, *ends, 0.0, shape.causal, False, scale=scale)
    q, k, v = _copies(shape, values)
    return lambda: aten._cudnn_attention_forward(q, k, v, None, *ends, True, 0.0, shape.causal, False, scale=scale)


def _nested(shape: Shape, values: dict[str, Any]) -> Callable[[], Any]:
    """Torch's tensors of sequences of different lengths; heads that share keys get copies."""
    import torch

    offsets = values["cu_seqlens_q"].long()
    limits = {"min_seqlen": min(shape.lengths), "max_seqlen": max(shape.lengths)}
    copies = _copies(shape, values)
    nested = [torch.nested.nested_tensor_from_jagged(tensor, offsets=offsets, **limits) for tensor in copies]
    q, k, v = (tensor.transpose(1, 2) for tensor in nested)
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(q, k, v, is_causal=shape.causal, scale=shape.size**-0.5)


def _copies(shape: Shape, values: dict[str, Any]) -> list[Any]:
    """Queries, keys and values with a key head for each query head: the copies are not timed."""
    q, *shared = (values[key] for key in ("q", "k", "v"))
    return [q, *(tensor if shape.group == 1 else tensor.repeat_interleave(shape.group, dim=1) for tensor in shared)]


def _padded(shape: Shape, tensor: Any) -> Any:
    """A batch of sequences of the longest's length, with zeros behind the others."""
    found = tensor.new_zeros(shape.batch, max(shape.lengths), *tensor.shape[1:])
    for row, own in zip(found, tensor.split(shape.lengths), strict=True):
        row[: len(own)] = own
    return found


def _unpadded(shape: Shape, batch: Any) -> Any:
    """The sequences of such a batch, one behind the other."""
    import torch

    return torch.cat([row[:length] for row, length in zip(batch, shape.lengths, strict=True)])
