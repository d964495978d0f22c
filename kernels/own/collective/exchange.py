"""How ranks divide a vector and signal to each other: index arithmetic, for device code and tests alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WORLDS = (2, 4, 8)
SIGNAL_BYTES = 4  # of a signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """``world`` ranks add up a vector, of which a thread takes ``vector`` elements at a time.

    With one shot each rank sums all of it; with two each sums a share, and hands it to the others. The methods take
    plain integers or the DSL's: device code calls them with the latter.

    >>> Exchange(world=8, shots=1, vector=8).signal_bytes
    2048
    """

    world: int
    shots: int
    vector: int
    threads: int = 512
    max_blocks: int = 64  # blocks: enough to fill the links between GPUs, and never so many that some wait for a place

    @property
    def signal_bytes(self) -> int:
        """What a rank's signals take: one from each rank to each block."""
        return self.max_blocks * self.world * SIGNAL_BYTES

    @property
    def sharers(self) -> int:
        """How many ranks share the sums."""
        return self.world if self.shots == 2 else 1

    def each(self, n: Any) -> Any:
        """Whole vectors that a rank sums, the last one perhaps fewer.

        >>> Exchange(world=4, shots=2, vector=8).each(8 * 9 + 3)
        3
        """
        return (n // self.vector + self.sharers - 1) // self.sharers

    def blocks(self, n: Any) -> Any:
        """The blocks that have work; ``grid`` is how many are launched."""
        return (self.each(n) + self.threads - 1) // self.threads

    def first(self, n: Any, rank: Any) -> Any:
        """The first vector that a rank sums.

        >>> [Exchange(world=2, shots=2, vector=8).first(80, rank) for rank in range(2)]
        [0, 5]
        """
        return self.each(n) * rank * (self.shots - 1)

    def signal(self, block: Any, sender: Any) -> Any:
        """The offset in bytes, among a rank's signals, of the signal from another rank's block.

        >>> Exchange(world=4, shots=1, vector=8).signal(2, 3)
        44
        """
        return (block * self.world + sender) * SIGNAL_BYTES
