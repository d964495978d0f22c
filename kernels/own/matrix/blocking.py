"""How a product is divided among blocks: tiles of the result, shares of k, and stages of shared memory.

The arithmetic is the same in Python and in device code, where the sizes are known at the call only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from precast.kernels.own.matrix.multicast import Multicast

WARP, GROUP = 32, 128  # threads; four warps multiply together
STAGED = 64  # of the result, both ways: what a group puts into shared memory at a time, to store it
STAGED_BYTES = STAGED * STAGED * 2
# Bytes of shared memory: of an SM, the most of a block, and what the system takes of each block.
_SHARED, _MOST, _RESERVED = 228 << 10, 227 << 10, 1 << 10
_SMALL = 1 << 10  # bytes for barriers, and for the alignment of what follows them
_FEWEST, _STAGES = 2, 16
_CLUSTER = 8  # blocks that every GPU of the architecture can hold in a cluster
_FIRST = (64, 128, 192, 256)
_DEPTHS = (128, 256, 512)  # bytes: a row of TMA's swizzle, or some
# Registers: of a fourth of an SM, of which each has every fourth warp; the most of a thread; what it needs beside its
# sums; and what a thread that loads keeps of its own where the others need more than their share.
_REGISTERS, _LARGEST, _OTHERS, _KEPT = 16384, 255, 26, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """``tokens`` by ``rows`` of weights are multiplied at a time, ``depth`` of k in each step.

    The tensor core takes 64 of its first side and any multiple of 8 of its second: the weights stand first with
    ``swap``, else the tokens. ``split`` blocks share the k of one tile. ``across`` blocks with other weights load the
    same tokens together, and ``along`` blocks with other tokens the same weights. ``residents`` blocks fit on an SM.
    ``width`` is the bytes of a number that is multiplied. With ``pingpong`` two teams of warps have a whole tile each,
    in turn: one stores its result while the other multiplies.

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
        """Groups of four warps that multiply one tile: each takes 64 of the first side, or 128 of 256. With pingpong
        one group takes the whole tile.

        >>> [Blocking(tokens=64, rows=128, depth=64, swap=True, pingpong=turns).groups for turns in (False, True)]
        [2, 1]
        """
        if self.pingpong:
            return 1
        return 2 if self.first == 256 else self.first // 64

    @property
    def teams(self) -> int:
        """Teams of groups, which take tiles in turn."""
        return 2 if self.pingpong else 1

    @property
    def team_warps(self) -> int:
        """Warps of a team: those that read a stage."""
        return 4 * self.groups

    def group(self, number: Any) -> tuple[Any, Any]:
        """The number of a group in its team, and that of the team."""
        return (number % self.groups, number // self.groups) if self.pingpong else (number, 0)

    @property
    def warps(self) -> int:
        """Warps that multiply."""
        return self.team_warps * self.teams

    @property
    def lends(self) -> bool:
        """Whether the sums take more registers than an equal share: those that load then give theirs away."""
        return self.sums + _OTHERS > self._share(self.warps + 1)

    @property
    def loaders(self) -> int:
        """One warp that loads; four where they lend registers, which only such a group can."""
        return 4 if self.lends else 1

    @property
    def registers(self) -> int:
        """The registers of a thread that multiplies.

        >>> [Blocking(tokens=m, rows=256, depth=64, swap=True).registers for m in (128, 144)]
        [168, 232]
        """
        share = self._share(self.warps + self.loaders)
        if not self.lends:
            return share
        groups = self.groups * self.teams
        return min(_LARGEST, _eights((share * (groups + 1) - _KEPT) // groups))

    @property
    def kept(self) -> int:
        """The registers of a thread that loads, where it lends."""
        return _KEPT

    @property
    def threads(self) -> int:
        """Those that multiply, and those that load."""
        return (self.warps + self.loaders) * WARP

    @property
    def sharing(self) -> int:
        """Blocks that load sides of their tiles together."""
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
        """Blocks that read what one block loads, itself among them: those in its line along, and in that across.

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
        """What one step loads."""
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
    def stays(self) -> bool:
        """Whether a block takes one tile after another; else it has one, whose k it shares."""
        return self.split == 1

    @property
    def repeats(self) -> int:
        """How often a thread's sums repeat along the first side."""
        return self.first // (64 * self.groups)

    def first_eight(self, share: Any) -> Any:
        """The first of the eights of the second side that a block adds up and stores; what the next begins with.

        >>> [Blocking(tokens=40, rows=64, depth=64, swap=True, split=2).first_eight(share) for share in range(3)]
        [0, 2, 5]
        """
        return share * (self.second // 8) // self.split

    @property
    def eights(self) -> int:
        """The eights of the second side of the largest part that a block stores."""
        return -(-self.second // 8 // self.split)

    @property
    def slots(self) -> int:
        """Pieces of 16 bytes that a thread sends to another block."""
        return self.eights * self.repeats

    @property
    def received_bytes(self) -> int:
        """Shared memory for what the other blocks send."""
        return (self.split - 1) * self.slots * self.warps * WARP * 16

    @property
    def buffer_bytes(self) -> int:
        """Shared memory for the stages, which the other blocks' sums and the result, rounded, take in the end."""
        return max(self.stages * self.stage_bytes, self.received_bytes + self.groups * STAGED_BYTES)

    def receivers(self, share: Any, neighbour: Any) -> tuple[Any, Any]:
        """The blocks of a cluster, one bit each, that need the weights that one block loads, and those that need its
        tokens: of the same share of k, those with the same weights, or with the same tokens.

        >>> one = Blocking(tokens=64, rows=64, depth=64, swap=True, along=2, across=2)
        >>> [tuple(map(bin, one.receivers(0, neighbour))) for neighbour in range(2)]
        [('0b11', '0b101'), ('0b11', '0b1010')]
        """
        weights = sum(1 << self.split * i for i in range(self.along))
        tokens = sum(1 << self.split * self.along * i for i in range(self.across))
        column, line = neighbour % self.along, neighbour // self.along
        return weights << (share + line * (self.split * self.along)), tokens << (share + column * self.split)

    @property
    def sums(self) -> int:
        """Sums in the registers of a thread."""
        return self.tokens * self.rows // (self.groups * GROUP)

    def _share(self, warps: int) -> int:
        """Registers of a thread where all of a block of so many warps have as many."""
        fourth = -(-warps * self.residents // 4)
        return min(_LARGEST, _eights(_REGISTERS // (fourth * WARP)))

    @property
    def _memory(self) -> int:
        return min(_MOST, _SHARED // self.residents - _RESERVED)

    def token_clusters(self, m: Any) -> Any:
        """Clusters along the tokens."""
        step = self.tokens * self.along
        return (m + step - 1) // step

    def clusters(self, m: Any, n: Any) -> Any:
        """Clusters' tiles in all. The last may have blocks without tokens or weights."""
        step = self.rows * self.across
        return self.token_clusters(m) * ((n + step - 1) // step)

    def rank(self, block: Any) -> tuple[Any, Any]:
        """A block's share of k, and its number among those of its cluster that load together.

        >>> one = Blocking(tokens=16, rows=64, depth=64, swap=True, split=2, across=2)
        >>> [one.rank(block) for block in range(4)]
        [(0, 0), (1, 0), (0, 1), (1, 1)]
        """
        return block % self.split, block // self.split % self.sharing

    def position(self, number: Any, neighbour: Any, token_clusters: Any) -> tuple[Any, Any]:
        """The tile of tokens and that of weights of a block, of the cluster's tile of that number.

        Tiles of the same weights stand one after another, so that the L2 cache has them for all but the first.

        >>> one = Blocking(tokens=16, rows=64, depth=64, swap=True, along=2, across=2)
        >>> [one.position(0, neighbour, 3) for neighbour in range(4)], one.position(4, 1, 3)
        ([(0, 0), (1, 0), (0, 1), (1, 1)], (3, 2))
        """
        token_tile = number % token_clusters * self.along + neighbour % self.along
        row_tile = number // token_clusters * self.across + neighbour // self.along
        return token_tile, row_tile

    def steps(self, k: Any, share: Any) -> Any:
        """Steps of the block that takes every ``split``-th one from its share on; none where k is short.

        >>> blocking = Blocking(tokens=16, rows=64, depth=64, swap=True, split=4)
        >>> [blocking.steps(64 * 5 + 8, share) for share in range(4)]
        [2, 2, 1, 1]
        """
        return ((k + self.depth - 1) // self.depth + self.split - 1 - share) // self.split

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
        # Those of one instruction must fit before any register is lent.
        instruction_sums = self.second // 2
        if self.sums + _OTHERS > self.registers or instruction_sums + _OTHERS > self._share(self.warps + self.loaders):
            return (
                f"tile {self.tokens} by {self.rows} takes {self.sums} registers of a thread for its sums, too many "
                f"with {self.residents} blocks on an SM: use a smaller one, or fewer residents"
            )
        return None


def _eights(registers: int) -> int:
    """They are given out in eights."""
    return registers // 8 * 8


def _power(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
