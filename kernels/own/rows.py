"""How the threads of a block share rows: pure arithmetic, settled before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
_VECTOR_BITS = 128
_HELD_STEPS = 8


@dataclass(frozen=True, slots=True)
class Split:
    """A block of ``threads`` takes ``rows`` rows; ``lanes`` share a row of ``vectors`` vectors in ``steps`` steps.

    In step ``s``, lane ``i`` has the vector ``s * lanes + i``, so that neighbours read neighbouring memory.
    """

    vector: int
    vectors: int
    threads: int
    lanes: int

    @classmethod
    def of(cls, hidden: int, bits: int, threads: int) -> Split:
        """The split of a row of ``hidden`` elements: a power of two of lanes, each with two vectors or more.

        >>> split = Split.of(hidden=4096, bits=16, threads=128)
        >>> split.lanes, split.steps, split.rows
        (128, 4, 1)
        """
        vector = _VECTOR_BITS // bits
        vectors = hidden // vector
        wanted = 1 << max(0, (vectors - 1) // 2).bit_length()
        return cls(vector, vectors, threads, min(threads, wanted))

    @property
    def rows(self) -> int:
        """How many rows a block takes."""
        return self.threads // self.lanes

    @property
    def steps(self) -> int:
        """How many vectors a lane has, at most."""
        return -(-self.vectors // self.lanes)

    @property
    def warps(self) -> int:
        """How many warps share a row; 1 where a warp has one row or several."""
        return max(1, self.lanes // WARP)

    @property
    def held(self) -> bool:
        """Whether a row and its weights stay in registers: four each for a vector, at most half of a thread's."""
        registers = min(255, 65536 // self.threads)
        return self.steps <= min(_HELD_STEPS, registers // 16)

    def whole(self, step: int) -> bool:
        """Whether every lane has a vector in this step."""
        return (step + 1) * self.lanes <= self.vectors
