"""How a product is divided among blocks that read weights as fast as memory gives them: tiles, stages, shares of k.

The arithmetic is the same in Python and in device code, where the sizes are known at the call only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WARP, GROUP = 32, 128  # threads; four warps multiply together
_SHARED, _MOST, _RESERVED = (
    228 << 10,
    227 << 10,
    1 << 10,
)  # bytes of an SM, of a block, and of each block for the system
_SMALL = 1 << 10  # bytes for barriers, and for the alignment of what follows them
_LEAST, _STAGES = 2, 16
_CLUSTER = 8  # blocks that every GPU of the architecture can hold in a cluster
_ROWS = (64, 128, 192, 256)
_REGISTERS = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """``tokens`` and ``rows`` of weights are multiplied at a time, ``depth`` of k in each step.

    ``split`` blocks share the k of one tile. ``sharing`` blocks with other weights load the same tokens together.
    ``residents`` blocks fit on an SM.
    """

    tokens: int
    rows: int
    depth: int
    split: int = 1
    sharing: int = 1
    residents: int = 1
    width: int = 16

    @property
    def groups(self) -> int:
        """Groups of four warps that multiply: each takes 64 rows, or 128 of 256."""
        return min(self.rows // 64, 2) if self.rows != 192 else 3

    @property
    def warps(self) -> int:
        """Warps that multiply."""
        return 4 * self.groups

    @property
    def threads(self) -> int:
        """Those, and one warp that loads."""
        return (self.warps + 1) * WARP

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.split * self.sharing

    @property
    def stage_bytes(self) -> int:
        """What one step loads."""
        return (self.rows + self.tokens) * self.depth * self.width // 8

    @property
    def stages(self) -> int:
        """Steps that are loaded ahead: as many as fit."""
        return min(_STAGES, (self._memory - _SMALL) // self.stage_bytes)

    @property
    def weight_bytes(self) -> int:
        """The stages of the weights, which the stages of the tokens follow."""
        return self.stages * self.rows * self.depth * self.width // 8

    @property
    def pitch(self) -> int:
        """From the sums of a token to those of the next, so that the threads of a warp write to different banks."""
        return self.rows + 4

    @property
    def sum_bytes(self) -> int:
        """The sums of a tile, in float32."""
        return self.tokens * self.pitch * 4

    @property
    def buffer_bytes(self) -> int:
        """Shared memory for the stages, which the sums then take."""
        return max(self.stages * self.stage_bytes, self.sum_bytes)

    @property
    def receivers(self) -> int:
        """The blocks of a cluster that get the same tokens as the first: one bit each."""
        return sum(1 << self.split * i for i in range(self.sharing))

    @property
    def _memory(self) -> int:
        return min(_MOST, _SHARED // self.residents - _RESERVED)

    def token_tiles(self, m: Any) -> Any:
        """Tiles along the tokens."""
        return (m + self.tokens - 1) // self.tokens

    def grid(self, m: Any, n: Any) -> Any:
        """Blocks in all. The last cluster may have blocks without weights."""
        rows = self.rows * self.sharing
        return self.token_tiles(m) * ((n + rows - 1) // rows) * self.cluster

    def steps(self, k: Any, rank: Any) -> Any:
        """Steps of the block that takes every ``split``-th one from its rank on; none where k is short.

        >>> one = Blocking(tokens=16, rows=64, depth=64, split=4)
        >>> [one.steps(64 * 5 + 8, rank) for rank in range(4)]
        [2, 2, 1, 1]
        """
        return ((k + self.depth - 1) // self.depth + self.split - 1 - rank) // self.split

    def refusal(self) -> str | None:
        """Why there is no such kernel, ending in what would work; None where there is.

        >>> Blocking(tokens=20, rows=64, depth=64).refusal()
        'tile has m 20: use a multiple of 8 up to 256'
        """
        if self.tokens % 8 or not 8 <= self.tokens <= 256:
            return f"tile has m {self.tokens}: use a multiple of 8 up to 256"
        if self.rows not in _ROWS:
            return f"tile has n {self.rows}: use one of {', '.join(map(str, _ROWS))}"
        if self.depth not in (64, 128, 256):
            return f"tile has k {self.depth}: use 64, 128 or 256"
        if self.cluster > _CLUSTER or not _power(self.split) or not _power(self.sharing):
            return (
                f"split {self.split} and cluster [1, {self.sharing}] take {self.cluster} blocks to a cluster: "
                f"use powers of two with a product of {_CLUSTER} or less"
            )
        if self.tokens % (8 * self.sharing):
            return f"{self.sharing} blocks cannot share m {self.tokens} of a tile: use a multiple of {8 * self.sharing}"
        if not 1 <= self.residents <= 4:
            return f"residents is {self.residents}: use 1 to 4"
        if self.stages < _LEAST or self.buffer_bytes + _SMALL > self._memory:
            return (
                f"tile {self.tokens} by {self.rows} by {self.depth} does not fit in the shared memory of "
                f"{self.residents} blocks on an SM: use a smaller one, or fewer residents"
            )
        sums = self.tokens * self.rows // (self.groups * GROUP)
        if sums > 160 or (sums + 40) * self.threads * self.residents > _REGISTERS:
            return (
                f"tile {self.tokens} by {self.rows} takes {sums} registers of a thread for its sums, too many with "
                f"{self.residents} blocks on an SM: use a smaller one, or fewer residents"
            )
        return None


def _power(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
