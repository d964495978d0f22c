"""How the threads of a block share a tile of a vector of numbers: index arithmetic, for device code and tests alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of ``threads`` takes a tile; each thread takes ``unroll`` vectors of ``vector`` elements of it.

    Neighbouring threads take neighbouring vectors. The last tile may be cut short by the end of the data: its whole
    vectors are taken as in any other, and each element after the last whole vector by a thread of its own.

    The methods take plain integers or the DSL's: device code calls them with the latter.

    >>> Tile(vector=8, threads=128, unroll=4).size
    4096
    """

    vector: int
    threads: int
    unroll: int

    @property
    def size(self) -> int:
        """How many elements a tile has."""
        return self.vector * self.threads * self.unroll

    def blocks(self, n: Any) -> Any:
        """How many tiles ``n`` elements fill, the last one perhaps in part.

        >>> Tile(vector=8, threads=128, unroll=4).blocks(4097)
        2
        """
        return (n + self.size - 1) // self.size

    def position(self, block: Any, parts: Any) -> tuple[Any, Any]:
        """The row of a block, and where its tile starts in it, where each row has ``parts`` tiles.

        >>> Tile(vector=8, threads=128, unroll=4).position(5, parts=2)
        (2, 4096)
        """
        return block // parts, block % parts * self.size

    def full(self, start: Any, n: Any) -> Any:
        """Whether the tile from ``start`` is full."""
        return start + self.size <= n

    def first(self, start: Any, thread: Any) -> Any:
        """The first element of a thread's first vector in the tile from ``start``."""
        return start + thread * self.vector

    def offset(self, first: Any, u: int) -> Any:
        """The first element of a thread's vector number ``u``."""
        return first + u * self.threads * self.vector

    def whole(self, offset: Any, n: Any) -> Any:
        """Whether the vector from ``offset`` ends before the data does."""
        return offset + self.vector <= n

    def rest(self, n: Any, thread: Any) -> Any:
        """The element after the last whole vector that a thread takes, if it is below ``n``."""
        return n - n % self.vector + thread
