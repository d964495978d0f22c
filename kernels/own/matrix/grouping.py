"""How products of many experts are divided: tiles of the rows of each, which persistent blocks take in turn.

The arithmetic is the same in Python and in device code, where the numbers of rows are known on the device only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from precast.kernels.own.matrix.blocking import GROUP, WARP

BLOCK = 128  # the values of k, and of n, that share a scale
DEPTH_BYTES = 128  # of a row, in each step: what the widest swizzle takes
PITCH = 64 + 8  # elements between the staged rows of a group, so that 8 rows are in different banks
_SHARED, _SMALL = 227 << 10, 2 << 10  # bytes of a block; of these, for barriers and alignment
_STAGES = 16
_STAGED = 64  # tokens that a group stages at a time
_TALL = 16  # tiles of tokens that are taken one after another, before the next tile of weights
_REGISTERS, _OTHERS, _MOST = 65536, 40, 255  # of an SM; what a thread needs beside its sums; the limit of a thread
_FIRST = (64, 128, 256)
_CLUSTERS = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """``tokens`` by ``rows`` of weights are multiplied at a time. ``across`` blocks with different weights load the
    same tokens together, or ``along`` blocks with different tokens load the same weights. Elements have ``width``
    bytes; with ``scaled``, sums are scaled after each 128 of k. With ``gated``, half of the rows are those of a gate,
    and the others those that it is multiplied with.

    >>> grouping = Grouping(tokens=64, rows=128, width=2)
    >>> grouping.depth, grouping.stages, grouping.groups
    (64, 8, 2)
    """

    tokens: int
    rows: int
    width: int
    scaled: bool = False
    gated: bool = False
    along: int = 1
    across: int = 1

    @property
    def depth(self) -> int:
        """Values of k in each step."""
        return DEPTH_BYTES // self.width

    @property
    def groups(self) -> int:
        """Groups of four warps that multiply: each takes 64 rows of weights, or twice 64 of 256."""
        return min(2, self.rows // 64)

    @property
    def repeats(self) -> int:
        """How many times 64 rows a group takes."""
        return self.rows // (64 * self.groups)

    @property
    def cluster(self) -> int:
        """Blocks of a cluster, which load one side together."""
        return self.along * self.across

    @property
    def loads(self) -> int:
        """The parts of a stage's weights that are not contiguous in memory."""
        return 2 if self.gated else 1

    @property
    def columns(self) -> int:
        """Columns of the result that a tile has."""
        return self.rows // self.loads

    @property
    def warps(self) -> int:
        """Warps that multiply."""
        return 4 * self.groups

    @property
    def threads(self) -> int:
        """The threads that multiply, and those of one loading warp."""
        return (self.warps + 1) * WARP

    @property
    def scale_bytes(self) -> int:
        """The scales of a stage."""
        return self.tokens * 4 if self.scaled else 0

    @property
    def loaded_bytes(self) -> int:
        """What TMA loads in one step."""
        return (self.rows + self.tokens) * DEPTH_BYTES

    @property
    def staged(self) -> int:
        """Tokens whose results a group stages at a time."""
        return _STAGED if self.tokens % _STAGED == 0 else 32 if self.tokens % 32 == 0 else 16

    @property
    def staged_bytes(self) -> int:
        """The staged results of all groups, in 16 bits each."""
        return self.groups * self.staged * PITCH * 2

    @property
    def stages(self) -> int:
        """Steps that are loaded ahead: as many as fit."""
        stage = (self.rows + self.tokens) * DEPTH_BYTES + self.scale_bytes
        return min(_STAGES, (_SHARED - _SMALL - self.staged_bytes - 4096) // stage)

    @property
    def sums(self) -> int:
        """Sums in the registers of a thread."""
        return self.tokens * self.rows // (self.groups * GROUP) * (2 if self.scaled else 1)

    @property
    def registers(self) -> int:
        """The limit of a thread: registers are allocated to groups of four warps, in multiples of 8 for a thread."""
        return min(_MOST, _REGISTERS // (-(-self.threads // GROUP) * GROUP) // 8 * 8)

    def row_clusters(self, n: Any) -> Any:
        """Clusters along the columns of the result. The last may have blocks without columns."""
        step = self.columns * self.across
        return (n + step - 1) // step

    def token_clusters(self, m: Any) -> Any:
        """Clusters along an expert's tokens. The last may have blocks without tokens."""
        step = self.tokens * self.along
        return (m + step - 1) // step

    def position(
        self, number: Any, tiles: Any, clusters: Any, least: Callable[[Any, Any], Any] = min
    ) -> tuple[Any, Any]:
        """The indices of a cluster's tile along the tokens and along the weights of one expert.

        Tiles that are in flight together form a square, and so read as few rows of tokens and of weights as possible.

        >>> grouping = Grouping(tokens=64, rows=128, width=2)
        >>> [grouping.position(number, 20, 3) for number in (0, 1, 16, 48, 59)]
        [(0, 0), (1, 0), (0, 1), (16, 0), (19, 2)]
        """
        above = number // (_TALL * clusters)
        rest = number - above * _TALL * clusters
        height = least(_TALL, tiles - above * _TALL)
        across = rest // height
        return above * _TALL + rest - across * height, across

    def tile(self, token_cluster: Any, row_cluster: Any, cta_rank: Any) -> tuple[Any, Any]:
        """The tile of tokens and the tile of weights of one block of a cluster.

        >>> Grouping(tokens=64, rows=128, width=2, across=2).tile(3, 5, 1)
        (3, 11)
        """
        if self.along > 1:
            return token_cluster * self.along + cta_rank, row_cluster
        return token_cluster, row_cluster * self.across + cta_rank

    def matrix_address(self, thread: Any) -> tuple[Any, Any]:
        """The token and the first row whose address a thread passes to stmatrix, which transposes 16 tokens' results.

        A warp stores four matrices of 8 by 8: the first 8 rows of 8 tokens, the other 8 rows, and the same of the next
        8 tokens.

        >>> grouping = Grouping(tokens=64, rows=128, width=2)
        >>> [grouping.matrix_address(thread) for thread in (0, 1, 8, 16, 32)]
        [(0, 0), (1, 0), (0, 8), (8, 0), (0, 16)]
        """
        lane = thread % WARP
        return lane // 16 * 8 + lane % 8, thread // WARP * 16 + lane // 8 % 2 * 8

    def refusal(self) -> str | None:
        """Why there is no such kernel, ending in what would work; None where there is.

        >>> Grouping(tokens=24, rows=64, width=2).refusal()
        'tile has m 24: use a multiple of 16 up to 256'
        """
        if self.tokens % 16 or not 16 <= self.tokens <= 256:
            return f"tile has m {self.tokens}: use a multiple of 16 up to 256"
        if self.rows not in _FIRST:
            return f"tile has n {self.rows}: use one of {', '.join(map(str, _FIRST))}"
        if self.gated and self.rows != 256:
            return f"tile has n {self.rows}: with activation use 256, of which half are the gate's"
        if self.scaled and self.columns > BLOCK:
            return f"tile has n {self.rows}, which have more than one scale: use 64 or 128"
        if self.cluster not in _CLUSTERS or self.along > 1 < self.across:
            return f"cluster is [{self.along}, {self.across}]: use 1, 2 or 4 of one, and 1 of the other"
        if self.tokens % (8 * self.across):
            return (
                f"{self.across} blocks cannot load {self.tokens} tokens in parts: use a multiple of {8 * self.across}"
            )
        if self.sums + _OTHERS > self.registers or self.stages < 3:
            return f"tile {self.tokens} by {self.rows} takes more registers or shared memory than a block has: use less"
        return None


def table_size(experts: int) -> int:
    """The length of the table of each expert's last tile: a power of two; the last entry is past all experts.

    >>> table_size(31), table_size(32), table_size(1)
    (32, 64, 32)
    """
    return max(32, 1 << experts.bit_length())


def expert_of(table: Any, size: int, slot: Any, integer: Callable[[Any], Any] = int) -> Any:
    """The expert of a tile of tokens: the first entry above ``slot`` in a table of running totals of tiles.

    It is a binary search without branches: ``integer`` converts a condition to 0 or 1. Entries past the last expert
    are the largest integer.

    >>> table = [0, 2, 2, 5] + [2**31 - 1] * 28
    >>> [expert_of(table, 32, slot) for slot in range(5)]
    [1, 1, 3, 3, 3]
    """
    expert, step = integer(0), size // 2
    while step:
        expert = expert + step * integer(table[expert + step - 1] <= slot)
        step //= 2
    return expert
