"""How a product is divided among blocks: tiles of the result, slices of k, and stages of shared memory.

The arithmetic is the same in Python and in device code, where the sizes are known at the call only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from precast.kernels.own.matrix.multicast import Multicast

WARP, GROUP = 32, 128  # threads; four warps multiply together
STAGED = 64  # of the result, both ways: what a group puts into shared memory at a time, to store it
STAGED_BYTES = STAGED * STAGED * 2
# Bytes of shared memory: of an SM, the limit of a block, and what the system reserves for each block.
_SHARED, _MOST, _RESERVED = 228 << 10, 227 << 10, 1 << 10
_SMALL = 1 << 10  # bytes for barriers, and for the alignment of what follows them
_FEWEST, _STAGES = 2, 16
_CLUSTER = 8  # blocks that every GPU of the architecture can hold in a cluster
_FIRST = (64, 128, 192, 256)
_DEPTHS = (128, 256, 512)  # bytes: a row of TMA's swizzle, or some
# Registers: of a quarter of an SM, which runs every fourth warp; the limit of a thread; what a thread needs beside its
# sums; and what a thread of the loading warps keeps where the others need more than an equal share.
_REGISTERS, _LARGEST, _OTHERS, _LOADER = 16384, 255, 26, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """``tokens`` by ``rows`` of weights are multiplied at a time, ``depth`` of k in each step.

    The tensor core takes 64 of its first side and any multiple of 8 of its second: the weights are the first side with
    ``swap``, else the tokens are. ``split`` blocks have slices of the k of one tile. ``across`` blocks with different
    weights load the same tokens together, and ``along`` blocks with different tokens load the same weights.
    ``residents`` blocks fit on an SM. ``width`` is the size in bytes of an element. With ``pingpong``, two teams of
    warps have a tile each, in turn: one stores its result while the other multiplies.

    >>> Blocking(tokens=16, rows=64, depth=128, swap=True, split=2, residents=2).stages
    5
    """

    tokens: int
    rows: int
    depth: int
    swap: bool
    split: int = 1
    along: int = 1
    across: int = 1
    residents: int = 1
    width: int = 2
    pingpong: bool = False

    @property
    def first(self) -> int:
        """The first side of the tile."""
        return self.rows if self.swap else self.tokens

    @property
    def second(self) -> int:
        """The second side of the tile."""
        return self.tokens if self.swap else self.rows

    @property
    def groups(self) -> int:
        """Groups of four warps (warpgroups) that multiply one tile: each takes 64 of the first side, or 128 of 256.
        With pingpong one group takes the whole tile.

        >>> [Blocking(tokens=64, rows=128, depth=64, swap=True, pingpong=turns).groups for turns in (False, True)]
        [2, 1]
        """
        if self.pingpong:
            return 1
        return 2 if self.first == 256 else self.first // 64

    @property
    def teams(self) -> int:
        """Teams of groups, which take turns with the tiles."""
        return 2 if self.pingpong else 1

    @property
    def team_warps(self) -> int:
        """Warps of a team, which are those that read a stage."""
        return 4 * self.groups

    def group(self, number: Any) -> tuple[Any, Any]:
        """The index of a group in its team, and the index of the team."""
        return (number % self.groups, number // self.groups) if self.pingpong else (number, 0)

    @property
    def warps(self) -> int:
        """Warps that multiply."""
        return self.team_warps * self.teams

    @property
    def reallocates_registers(self) -> bool:
        """Whether the sums need more than an equal share of registers: the loading warps then give up some."""
        return self.sums + _OTHERS > self._equal_share(self.warps + 1)

    @property
    def loaders(self) -> int:
        """One loading warp; four where registers are reallocated, since ``setmaxnreg`` applies to a group of four."""
        return 4 if self.reallocates_registers else 1

    @property
    def registers(self) -> int:
        """The registers of a thread that multiplies.

        >>> [Blocking(tokens=m, rows=256, depth=64, swap=True).registers for m in (128, 144)]
        [168, 232]
        """
        share = self._equal_share(self.warps + self.loaders)
        if not self.reallocates_registers:
            return share
        groups = self.groups * self.teams
        return min(_LARGEST, _allocated((share * (groups + 1) - _LOADER) // groups))

    @property
    def loader_registers(self) -> int:
        """The registers of a thread of the loading warps, after reallocation."""
        return _LOADER

    @property
    def threads(self) -> int:
        """Threads that multiply, and threads that load."""
        return (self.warps + self.loaders) * WARP

    @property
    def sharing(self) -> int:
        """Blocks that load sides of their tiles together, by multicast."""
        return self.along * self.across

    @property
    def first_multicast(self) -> Multicast:
        """How blocks load the first side together."""
        return Multicast.of(self.first, self.along if self.swap else self.across)

    @property
    def second_multicast(self) -> Multicast:
        """How blocks load the second side together."""
        return Multicast.of(self.second, self.across if self.swap else self.along)

    @property
    def readers(self) -> int:
        """Blocks that read what one block loads, including itself: its row and its column of the cluster.

        >>> Blocking(tokens=64, rows=64, depth=64, swap=True, along=2, across=4).readers
        5
        """
        return self.along + self.across - 1

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.split * self.sharing

    @property
    def stage_bytes(self) -> int:
        """Bytes that one step loads."""
        return (self.rows + self.tokens) * self.depth * self.width

    @property
    def stages(self) -> int:
        """Steps that are loaded ahead: as many as fit."""
        return min(_STAGES, (self._memory - _SMALL) // self.stage_bytes)

    @property
    def first_stage_bytes(self) -> int:
        """One stage of the first side."""
        return self.first * self.depth * self.width

    @property
    def first_bytes(self) -> int:
        """The stages of the first side, which those of the second follow."""
        return self.stages * self.first_stage_bytes

    @property
    def persistent(self) -> bool:
        """Whether a block takes one tile after another. Otherwise it has one tile, with a slice of its k."""
        return self.split == 1

    @property
    def repeats(self) -> int:
        """How often a thread's sums repeat along the first side."""
        return self.first // (64 * self.groups)

    def first_octet(self, k_slice: Any) -> Any:
        """The first group of 8 of the second side that a block adds up and stores; the next block's is the end.

        >>> [Blocking(tokens=40, rows=64, depth=64, swap=True, split=2).first_octet(k_slice) for k_slice in range(3)]
        [0, 2, 5]
        """
        return k_slice * (self.second // 8) // self.split

    @property
    def octets(self) -> int:
        """Groups of 8 of the second side in the largest part that a block stores."""
        return -(-self.second // 8 // self.split)

    @property
    def slots(self) -> int:
        """Pieces of 16 bytes that a thread sends to another block."""
        return self.octets * self.repeats

    @property
    def received_bytes(self) -> int:
        """Shared memory for the sums that the other blocks send."""
        return (self.split - 1) * self.slots * self.warps * WARP * 16

    @property
    def buffer_bytes(self) -> int:
        """Shared memory for the stages. The other blocks' sums and the rounded result reuse it after the last step."""
        return max(self.stages * self.stage_bytes, self.received_bytes + self.groups * STAGED_BYTES)

    def receivers(self, k_slice: Any, cta_rank: Any) -> tuple[Any, Any]:
        """Multicast masks of the weights and of the tokens that one block loads: a bit for each block of the cluster
        with the same slice of k and the same weights, or the same tokens.

        >>> one = Blocking(tokens=64, rows=64, depth=64, swap=True, along=2, across=2)
        >>> [tuple(map(bin, one.receivers(0, rank))) for rank in range(2)]
        [('0b11', '0b101'), ('0b11', '0b1010')]
        """
        weights = sum(1 << self.split * i for i in range(self.along))
        tokens = sum(1 << self.split * self.along * i for i in range(self.across))
        column, line = cta_rank % self.along, cta_rank // self.along
        return weights << (k_slice + line * (self.split * self.along)), tokens << (k_slice + column * self.split)

    @property
    def sums(self) -> int:
        """Sums in the registers of a thread."""
        return self.tokens * self.rows // (self.groups * GROUP)

    def _equal_share(self, warps: int) -> int:
        """Registers of a thread of a block of so many warps, if all threads have equally many."""
        fourth = -(-warps * self.residents // 4)
        return min(_LARGEST, _allocated(_REGISTERS // (fourth * WARP)))

    @property
    def _memory(self) -> int:
        return min(_MOST, _SHARED // self.residents - _RESERVED)

    def token_clusters(self, m: Any) -> Any:
        """Clusters along the tokens."""
        step = self.tokens * self.along
        return (m + step - 1) // step

    def clusters(self, m: Any, n: Any) -> Any:
        """All tiles, in clusters. The last cluster may have blocks without tokens or weights."""
        step = self.rows * self.across
        return self.token_clusters(m) * ((n + step - 1) // step)

    def rank(self, block: Any) -> tuple[Any, Any]:
        """A block's slice of k, and its rank among the blocks (CTAs) of its cluster that load together.

        >>> one = Blocking(tokens=16, rows=64, depth=64, swap=True, split=2, across=2)
        >>> [one.rank(block) for block in range(4)]
        [(0, 0), (1, 0), (0, 1), (1, 1)]
        """
        return block % self.split, block // self.split % self.sharing

    def position(self, number: Any, cta_rank: Any, token_clusters: Any) -> tuple[Any, Any]:
        """A block's tile of tokens and tile of weights, in the cluster's tile of this number.

        Tiles of the same weights have consecutive numbers, so that all but the first find them in the L2 cache.

        >>> one = Blocking(tokens=16, rows=64, depth=64, swap=True, along=2, across=2)
        >>> [one.position(0, rank, 3) for rank in range(4)], one.position(4, 1, 3)
        ([(0, 0), (1, 0), (0, 1), (1, 1)], (3, 2))
        """
        token_tile = number % token_clusters * self.along + cta_rank % self.along
        row_tile = number // token_clusters * self.across + cta_rank // self.along
        return token_tile, row_tile

    def steps(self, k: Any, k_slice: Any) -> Any:
        """Steps of a block, which takes every ``split``-th one, beginning with its slice's; none where k is short.

        >>> blocking = Blocking(tokens=16, rows=64, depth=64, swap=True, split=4)
        >>> [blocking.steps(64 * 5 + 8, k_slice) for k_slice in range(4)]
        [2, 2, 1, 1]
        """
        return ((k + self.depth - 1) // self.depth + self.split - 1 - k_slice) // self.split

    def refusal(self) -> str | None:
        """Why there is no such kernel, ending in what would work; None where there is.

        >>> Blocking(tokens=20, rows=64, depth=64, swap=True).refusal()
        'tile has m 20: use a multiple of 8 up to 256'
        """
        first, second = ("n", "m") if self.swap else ("m", "n")
        if self.second % 8 or not 8 <= self.second <= 256:
            return f"tile has {second} {self.second}: use a multiple of 8 up to 256"
        if self.first not in _FIRST:
            other = "without" if self.swap else "with"
            return f"tile has {first} {self.first}: use one of {', '.join(map(str, _FIRST))}, or build it {other} swap"
        if self.depth * self.width not in _DEPTHS:
            return f"tile has k {self.depth}: use one of {', '.join(str(d // self.width) for d in _DEPTHS)}"
        if self.split < 1 or self.cluster > _CLUSTER or not all(map(_power, (self.along, self.across))):
            return (
                f"split {self.split} and cluster [{self.along}, {self.across}] take {self.cluster} blocks to a "
                f"cluster: use a split of 1 or more and powers of two, with a product of {_CLUSTER} or less"
            )
        if self.pingpong and (self.split > 1 or self.first == 256):
            return (
                f"pingpong is for tiles of up to 192 {first} whose k is not shared: use such a tile with a split of 1, "
                "or leave pingpong out"
            )
        if not 1 <= self.residents <= 4:
            return f"residents is {self.residents}: use 1 to 4"
        if self.stages < _FEWEST or self.buffer_bytes + _SMALL > self._memory:
            return (
                f"tile {self.tokens} by {self.rows} by {self.depth} does not fit in the shared memory of "
                f"{self.residents} blocks on an SM: use a smaller one, or fewer residents"
            )
        # Until ``setmaxnreg`` moves registers, threads have equal shares: those must hold one instruction's sums.
        instruction_sums = self.second // 2
        if self.sums + _OTHERS > self.registers or instruction_sums + _OTHERS > self._equal_share(
            self.warps + self.loaders
        ):
            return (
                f"tile {self.tokens} by {self.rows} takes {self.sums} registers of a thread for its sums, too many "
                f"with {self.residents} blocks on an SM: use a smaller one, or fewer residents"
            )
        return None


def _allocated(registers: int) -> int:
    """Registers are allocated in multiples of 8."""
    return registers // 8 * 8


def _power(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
