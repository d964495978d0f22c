"""Sequences of a batch: where their tokens are, and what is kept of each rounded up to whole blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequences:
    """Some sequences, ``packed`` behind one another or each in a row of a batch.

    >>> two = Sequences(lengths=(130, 60), packed=True, block=128)
    >>> two.rounded, two.shape(3), two.begins
    ((256, 128), (3, 512), (0, 256))
    """

    lengths: Sequence[int]
    packed: bool
    block: int

    @property
    def rounded(self) -> tuple[int, ...]:
        """The lengths, rounded up to blocks."""
        return tuple(-(-length // self.block) * self.block for length in self.lengths)

    @property
    def begins(self) -> tuple[int, ...]:
        """Where what is kept of each begins, if they are packed."""
        return tuple((start + i * self.block) // self.block * self.block for i, start in enumerate(self.starts[:-1]))

    @property
    def starts(self) -> tuple[int, ...]:
        """Where the tokens of each begin, and the end of the last."""
        return tuple(sum(self.lengths[:i]) for i in range(len(self.lengths) + 1))

    @property
    def tokens(self) -> tuple[int, ...]:
        """The leading dimensions of what each token has."""
        return (sum(self.lengths),) if self.packed else (len(self.lengths), max(self.lengths))

    def shape(self, heads: int, width: int = 1) -> tuple[int, ...]:
        """The shape of what is kept of each head, with so many numbers for a token."""
        if not self.packed:
            return (len(self.lengths), heads, max(self.rounded) * width)
        total = (sum(self.lengths) + (len(self.lengths) + 1) * self.block - 1) // self.block * self.block
        return (heads, total * width)

    def of_tokens(self, tensor: Any, number: int) -> Any:
        """A sequence's part of ``[tokens, ..]`` or ``[batch, tokens, ..]``."""
        return tensor[self.starts[number] : self.starts[number + 1]] if self.packed else tensor[number]

    def by_head(self, tensor: Any, number: int) -> Any:
        """A sequence's part of ``[heads, tokens]`` or ``[batch, heads, tokens]``."""
        return tensor[:, self.starts[number] : self.starts[number + 1]] if self.packed else tensor[number]

    def kept(self, tensor: Any, number: int, width: int = 1) -> Any:
        """A sequence's part of what is kept, ``[heads, rounded length * width]``."""
        if not self.packed:
            return tensor[number]
        begin = self.begins[number] * width
        return tensor[:, begin : begin + self.rounded[number] * width]

    def offsets(self, device: Any) -> Any:
        """``cu_seqlens``; None for a batch."""
        import torch

        return torch.tensor(self.starts, dtype=torch.int32, device=device) if self.packed else None
