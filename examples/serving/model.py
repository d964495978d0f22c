"""The model: random weights, the cache of keys and values, and one step through all layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from serving.kernels import Kernels
from serving.shape import Shape
from serving.step import Step


@dataclass(frozen=True)
class Layer:
    """The weights of one layer, as checkpoints have them; those that are multiplied together are one matrix."""

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    o: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True)
class Weights:
    """All that a checkpoint would hold."""

    embedding: torch.Tensor
    layers: tuple[Layer, ...]
    norm: torch.Tensor
    head: torch.Tensor

    @classmethod
    def random(cls, shape: Shape, device: str, dtype: torch.dtype, seed: int = 0) -> Weights:
        """The same weights for the same seed and device; they keep activations about one in size."""
        torch.manual_seed(seed)

        def matrix(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, device=device, dtype=dtype).mul_(columns**-0.5)

        def norm() -> torch.Tensor:
            return torch.rand(shape.hidden, device=device, dtype=dtype).add_(0.5)

        def layer() -> Layer:
            qkv, o = matrix(shape.queries + 2 * shape.keys, shape.hidden), matrix(shape.hidden, shape.queries)
            return Layer(
                norm(), qkv, o, norm(), matrix(2 * shape.inter, shape.hidden), matrix(shape.hidden, shape.inter)
            )

        layers = tuple(layer() for _ in range(shape.layers))
        embedding = torch.randn(shape.vocabulary, shape.hidden, device=device, dtype=dtype)
        return cls(embedding, layers, norm(), matrix(shape.vocabulary, shape.hidden))

    def to(self, dtype: torch.dtype) -> Weights:
        """The same in another dtype."""
        layers = tuple(Layer(*(weight.to(dtype) for weight in vars(layer).values())) for layer in self.layers)
        return Weights(self.embedding.to(dtype), layers, self.norm.to(dtype), self.head.to(dtype))


class Model:
    """Layers on one device, with the pages of all seats."""

    def __init__(self, shape: Shape, kernels: Kernels, device: str, weights: Weights) -> None:
        self.shape, self.device, self._kernels, self._weights = shape, device, kernels, weights
        self._dtype = weights.norm.dtype
        pages = (shape.seats * shape.pages, shape.page, shape.kv_heads, shape.size)
        self._caches = [
            tuple(torch.zeros(pages, dtype=self._dtype, device=device) for _ in range(2)) for _ in weights.layers
        ]
        frequencies = shape.theta ** (-torch.arange(0, shape.size, 2, device=device, dtype=torch.float64) / shape.size)
        found = torch.arange(shape.longest, device=device, dtype=torch.float64).outer(frequencies)
        self._angles = torch.cat((found.cos(), found.sin()), dim=-1).float()
        self._odd = torch.arange(1, 2 * shape.hidden, 2, device=device)

    def hidden(self, step: Step) -> torch.Tensor:
        """The final norm of the last token of each part."""
        use, weights = self._kernels, self._weights
        norms = [*(layer.attention_norm for layer in weights.layers[1:]), weights.norm]
        with torch.inference_mode():
            residual = weights.embedding[step.tokens]
            x = use.norm(residual, weights.layers[0].attention_norm)
            for layer, (k_cache, v_cache), norm in zip(weights.layers, self._caches, norms, strict=True):
                q = use.rotary(use.linear(x, layer.qkv, self._dtype), self._angles, step, k_cache, v_cache)
                x = use.linear(use.attention(q, k_cache, v_cache, step), layer.o, self._dtype)
                x = use.add_norm(x, residual, layer.mlp_norm)
                x = use.linear(use.act_and_mul(use.linear(x, layer.gate_up, self._dtype)), layer.down, self._dtype)
                x = use.add_norm(x, residual, norm)
            return x[step.last]

    def step(self, step: Step) -> torch.Tensor:
        """Two rows: the next token of each part, and a mark made of all bits of its final norm."""
        found = self.hidden(step)
        with torch.inference_mode():
            # In float32: of logits in bfloat16 several may be the largest, and which one is taken would be chance.
            best = self._kernels.linear(found, self._weights.head, torch.float32).argmax(dim=-1)
            bits = found.view(torch.int16 if found.element_size() == 2 else torch.int32).long()
            return torch.stack((best, (bits * self._odd).sum(dim=-1)))
