"""How a decode over a cache of latents is divided among blocks: index arithmetic, for device code and tests alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WARP, GROUP = 32, 128  # threads; four warps multiply together
HEADS = 64  # heads of a block: the tensor core takes no fewer rows
WIDTH, VALUES = 576, 512  # elements of a latent, and those of them that are also values
HALF = VALUES // 2  # columns of the values that a group has
ROWS_OF_PAGE = (16, 32, 64, 128)
KEYS = (16, 32, 64, 128)
PITCH = (
    HALF + 8
)  # numbers from a row of sums to the next in shared memory: a warp writes to all banks, and once to each
_BYTES = 2  # of an element
_SHARED = 227 << 10  # bytes of shared memory that a block may have
_SMALL = 2 << 10  # bytes for barriers, for factors, and for the alignment of what follows them
_FEWEST, _MOST = 2, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """A block takes ``HEADS`` heads of a sequence, and ``keys`` latents of it at a time, from pages of ``page`` rows.

    One group of four warps scores the latents, and each of two groups sums up half of the columns of the values. The
    methods take plain integers or the DSL's: device code calls them with the latter.

    >>> Latent(keys=64, page=64).stages, Latent(keys=32, page=64).stages
    (2, 4)
    """

    keys: int
    page: int

    @property
    def threads(self) -> int:
        """Two groups that multiply, and one with the warp that loads: only whole groups may give up registers."""
        return 3 * GROUP

    @property
    def rows(self) -> int:
        """Latents that one copy loads: a page has no more, and a stage neither."""
        return min(self.keys, self.page)

    @property
    def piece_bytes(self) -> int:
        """What a copy loads."""
        return self.rows * WIDTH * _BYTES

    @property
    def query_bytes(self) -> int:
        """The queries of a block."""
        return HEADS * WIDTH * _BYTES

    @property
    def stage_bytes(self) -> int:
        """The latents of a stage."""
        return self.keys * WIDTH * _BYTES

    @property
    def weight_bytes(self) -> int:
        """The weights by which a stage's values are multiplied."""
        return HEADS * self.keys * _BYTES

    @property
    def stages(self) -> int:
        """Stages that are loaded ahead: as many as fit."""
        return min(_MOST, (_SHARED - _SMALL - self.query_bytes - self.weight_bytes) // self.stage_bytes)

    def steps(self, length: Any) -> Any:
        """Stages that a sequence fills, the last one perhaps in part.

        >>> [Latent(keys=64, page=64).steps(length) for length in (0, 1, 64, 65)]
        [0, 1, 1, 2]
        """
        return (length + self.keys - 1) // self.keys

    def steps_of_split(self, steps: Any, split: Any, splits: Any) -> tuple[Any, Any]:
        """The first step of a split, and how many follow from there; splits differ by one at most.

        >>> [Latent(keys=64, page=64).steps_of_split(5, split, 3) for split in range(3)]
        [(0, 1), (1, 2), (3, 2)]
        """
        first = steps * split // splits
        return first, steps * (split + 1) // splits - first

    def tiles(self, heads: Any) -> Any:
        """Blocks that the heads of a sequence take."""
        return (heads + HEADS - 1) // HEADS

    def position(self, block: Any, tiles: Any, splits: Any) -> tuple[Any, Any, Any]:
        """A block's tile of heads, split and sequence. Blocks that read the same latents have consecutive numbers.

        >>> [Latent(keys=64, page=64).position(block, 2, 3) for block in (0, 1, 2, 6)]
        [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        """
        return block % tiles, block // tiles % splits, block // (tiles * splits)

    def refusal(self) -> str | None:
        """Why there is no such kernel, ending in what would work; None where there is.

        >>> Latent(keys=128, page=64).refusal()
        'keys is 128: shared memory holds 0 stages of so many latents, and 2 are needed; use 64 or fewer'
        """
        for name, value, allowed in (("page", self.page, ROWS_OF_PAGE), ("keys", self.keys, KEYS)):
            if value not in allowed:
                return f"{name} is {value}: use one of {', '.join(map(str, allowed))}"
        if self.stages < _FEWEST:
            return (
                f"keys is {self.keys}: shared memory holds {self.stages} stages of so many latents, and {_FEWEST} are "
                f"needed; use 64 or fewer"
            )
        return None


def row(thread: Any, half: Any) -> Any:
    """The row of a thread's sums in the 64 of its group: each thread has two, eight apart.

    >>> row(0, 0), row(5, 1), row(127, 1)
    (0, 9, 63)
    """
    return thread // WARP % 4 * 16 + thread % WARP // 4 + 8 * half


def column(thread: Any, pair: Any) -> Any:
    """The first of the two neighbouring columns that a thread has of each eight.

    >>> column(0, 0), column(3, 2)
    (0, 22)
    """
    return pair * 8 + thread % 4 * 2
