"""The sizes of the model that is served, and what one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Llama 3 8B's sizes, but for the number of layers and the vocabulary."""

    layers: int = 4
    hidden: int = 4096
    inter: int = 14336
    heads: int = 32
    kv_heads: int = 8
    size: int = 128  # of a head
    vocabulary: int = 32768
    page: int = 128  # tokens of a page of the cache of keys and values
    pages: int = 8  # of one sequence
    seats: int = 32  # sequences that run at once; each has its own pages
    eps: float = 1e-5
    theta: float = 500_000.0

    @property
    def queries(self) -> int:
        """Columns of the queries of a token."""
        return self.heads * self.size

    @property
    def keys(self) -> int:
        """Columns of the keys of a token, and of its values."""
        return self.kv_heads * self.size

    @property
    def longest(self) -> int:
        """Tokens of a sequence at most, with those that are generated."""
        return self.page * self.pages


LLAMA = Shape()
SMALL = Shape(layers=2, hidden=64, inter=96, heads=4, kv_heads=2, size=16, vocabulary=97, page=8, pages=4, seats=8)
