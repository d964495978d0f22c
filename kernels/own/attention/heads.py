"""How the threads of a block share the heads of a token: index arithmetic, for device code and tests alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VECTOR = 8  # elements of 16 bits in 16 bytes


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of a token, its queries before its keys before its values, each of ``size`` elements.

    A lane takes two vectors of a head. In the first ``rotated`` elements these are one in each half, which are rotated
    together; in the others they are neighbours. A token takes ``parts`` blocks of ``threads`` threads. The methods take
    plain integers or the DSL's: device code calls them with the latter.
    """

    queries: int
    keys: int
    size: int
    rotated: int
    threads: int

    @property
    def lanes(self) -> int:
        """Lanes of a head."""
        return self.size // (2 * VECTOR)

    @property
    def rotating_lanes(self) -> int:
        """Lanes of a head that rotate their vectors."""
        return self.rotated // (2 * VECTOR)

    @property
    def total(self) -> int:
        """How many lanes a token takes.

        >>> Heads(queries=32, keys=8, size=128, rotated=128, threads=128).total
        384
        """
        return (self.queries + 2 * self.keys) * self.lanes

    @property
    def parts(self) -> int:
        """How many blocks a token takes."""
        return -(-self.total // self.threads)

    def token(self, block: Any) -> Any:
        """The token of a block."""
        return block // self.parts

    def index(self, block: Any, thread: Any) -> Any:
        """Which lane of the token a thread is, if the token has that many."""
        return block % self.parts * self.threads + thread

    def head(self, index: Any) -> Any:
        """The head of a lane of the token."""
        return index // self.lanes

    def lane(self, index: Any) -> Any:
        """The number of a lane in its head."""
        return index % self.lanes

    def beyond(self, lane: Any) -> Any:
        """1 if a lane takes elements that are not rotated, else 0.

        >>> [Heads(1, 1, 64, 32, 128).beyond(lane) for lane in range(4)]
        [0, 0, 1, 1]
        """
        return (lane + self.lanes - self.rotating_lanes) // self.lanes

    def first(self, lane: Any) -> Any:
        """The first element of a lane's first vector in its head.

        >>> [Heads(1, 1, 64, 32, 128).first(lane) for lane in range(4)]
        [0, 8, 32, 48]
        """
        return lane * VECTOR + self.beyond(lane) * (lane * VECTOR)

    def second(self, lane: Any) -> Any:
        """The first element of its second vector.

        >>> [Heads(1, 1, 64, 32, 128).second(lane) for lane in range(4)]
        [16, 24, 40, 56]
        """
        half = self.rotated // 2
        return self.first(lane) + half + self.beyond(lane) * (VECTOR - half)
