"""How the threads of a block share rows: index arithmetic, for device code and tests alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring.dtypes import bits
from precast.loader.contract.format.config import Config

WARP = 32
_VECTOR_BITS = 128
_REGISTER_STEPS = 8


def split_of(config: Config) -> Split:
    """The split of a full config with ``hidden``, ``dtype`` and ``threads``."""
    return Split.of(configs.integer(config, "hidden"), bits(str(config["dtype"])), configs.integer(config, "threads"))


@dataclass(frozen=True, slots=True)
class Split:
    """A block of ``threads`` takes ``rows`` rows; ``lanes`` share a row of ``vectors`` vectors in ``steps`` steps.

    Neighbouring lanes take neighbouring vectors. The methods that take a thread or a row take plain integers or the
    DSL's: device code calls them with the latter.
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
        lanes = 1 << max(0, (vectors - 1) // 2).bit_length()
        return cls(vector, vectors, threads, min(threads, lanes))

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
    def fits_registers(self) -> bool:
        """Whether a row and its weights stay in registers: four each for a vector, at most half of a thread's."""
        registers = min(255, 65536 // self.threads)
        return self.steps <= min(_REGISTER_STEPS, registers // 16)

    def whole(self, step: int) -> bool:
        """Whether every lane has a vector in this step."""
        return (step + 1) * self.lanes <= self.vectors

    def blocks(self, rows: Any) -> Any:
        """How many blocks ``rows`` rows take.

        >>> Split.of(hidden=128, bits=16, threads=128).blocks(33)
        3
        """
        return (rows + self.rows - 1) // self.rows

    def row(self, first: Any, thread: Any) -> Any:
        """The row of a thread, in the block whose first row is ``first``."""
        return first + thread // self.lanes

    def index(self, thread: Any, step: Any) -> Any:
        """The vector of its row that a thread takes in a step, if the row has that many."""
        return thread % self.lanes + step * self.lanes

    def first_warp(self, thread: Any) -> Any:
        """The first of the warps that share a thread's row, where several do."""
        return thread // self.lanes * self.warps
