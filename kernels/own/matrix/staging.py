"""How a block multiplies a tile through a ring of stages: index arithmetic, for device code and tests alike.

A **side** is one operand of a product, seen as a matrix of (along, k): ``along`` is m for the first side and n for the
second. A **stage** holds, of both sides, what one step of k needs. Memory that is contiguous in a side is contiguous in
its stage, too, since asynchronous copies move 16 bytes as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from precast.loader.contract.format.target import Target

WARP = 32
MATRIX = 8  # rows, and columns, of what one thread in four reads a row of
_BANKS = 128  # bytes that shared memory gives at once, if each is of another bank
_BAND = 8  # how many rows of tiles are taken together, so that blocks that run at once share what they read
_SHARED = {9: 227 * 1024, 10: 227 * 1024}  # bytes a block may have, by the major compute capability
_LEAST = 99 * 1024  # on all others there are GPUs with no more
_RESERVED = 1024  # bytes of each block that it cannot have itself
_COPIED = (16, 8, 4)  # bytes an asynchronous copy may move


def _log(power: int) -> int:
    """The logarithm of a power of two. Shifts and masks do for indices what // and % do, in one instruction."""
    return power.bit_length() - 1


@dataclass(frozen=True, slots=True)
class Side:
    """One side's part of a stage: ``along`` times ``depth`` elements, in lines of what is contiguous in memory.

    Lines are stored whole, one after the other. What is read at once are ``granule`` elements of each of ``together``
    neighbouring lines, which might all lie in the same banks; so granules change places within their line, in another
    way in each of these lines.

    The methods take plain integers or the DSL's: device code calls them with the latter.

    >>> side = Side(along=128, depth=32, contiguous_k=True, bits=16, granule=8, together=8, copied=16)
    >>> side.lines, side.width, side.vector
    (128, 32, 8)
    """

    along: int
    depth: int
    contiguous_k: bool
    bits: int
    granule: int
    together: int
    copied: int

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return self.along if self.contiguous_k else self.depth

    @property
    def width(self) -> int:
        """How many elements a line has."""
        return self.depth if self.contiguous_k else self.along

    @property
    def vector(self) -> int:
        """How many elements one copy moves."""
        return self.copied * 8 // self.bits

    @property
    def elements(self) -> int:
        """How many elements a stage holds of this side."""
        return self.along * self.depth

    def copies(self, threads: int) -> int:
        """How many copies each of some threads makes for a stage.

        >>> Side(along=128, depth=32, contiguous_k=True, bits=16, granule=8, together=8, copied=16).copies(128)
        4
        """
        return self.elements // (self.vector * threads)

    def first_copy(self, thread: Any) -> tuple[Any, Any]:
        """The line and element of a thread's first copy. Neighbouring threads copy neighbouring vectors."""
        each = _log(self.width // self.vector)
        return thread >> each, (thread & ((1 << each) - 1)) * self.vector

    def later_copy(self, number: Any, threads: int) -> tuple[Any, Any]:
        """How many lines and elements after its first copy another copy of a thread begins.

        >>> side = Side(along=128, depth=32, contiguous_k=True, bits=16, granule=8, together=8, copied=16)
        >>> side.later_copy(1, threads=128)
        (32, 0)
        """
        distance = number * (threads * self.vector)
        return distance >> _log(self.width), distance & (self.width - 1)

    def offset(self, line: Any, position: Any) -> Any:
        """The offset of an element of a line in the stage."""
        pieces = min(_BANKS * 8 // (self.bits * self.granule), self.width // self.granule)
        lines = _BANKS * 8 // (self.bits * self.granule * pieces)  # that lie in different banks as they are
        kinds = max(1, self.together // lines)
        turn = (line >> _log(lines)) & (kinds - 1)
        piece, rest = position >> _log(self.granule), position & (self.granule - 1)
        return line * self.width + (piece ^ turn) * self.granule + rest

    def at(self, along: Any, k: Any) -> Any:
        """The offset of an element of the side in the stage."""
        return self.offset(along, k) if self.contiguous_k else self.offset(k, along)

    def matrix_row(self, lane: Any, by_rows: bool) -> tuple[Any, Any]:
        """Where, as (along, k), the row of a matrix of 8 by 8 begins that a thread of a warp names, of the four that
        16 by 16 elements have. The second matrix follows the first along the side with ``by_rows``, else along k.

        >>> side = Side(along=128, depth=32, contiguous_k=True, bits=16, granule=8, together=8, copied=16)
        >>> [side.matrix_row(lane, True) for lane in (0, 1, 8, 16, 31)]
        [(0, 0), (1, 0), (8, 0), (0, 8), (15, 8)]
        """
        row, second, third = lane & (MATRIX - 1), lane & MATRIX, (lane >> 1) & MATRIX
        along, k = (second, third) if by_rows else (third, second)
        return (along + row, k) if self.contiguous_k else (along, k + row)

    def refusal(self, threads: int) -> str | None:
        """Why threads cannot share the copies of a stage, or None."""
        if self.copied not in _COPIED or self.copied * 8 < self.bits:
            allowed = [str(c) for c in _COPIED if c * 8 >= self.bits]
            return f"align is {self.copied}: use one of {', '.join(allowed)}"
        if self.width < self.granule or self.width & (self.width - 1):
            name = "k" if self.contiguous_k else "contiguous side"
            return f"the {name} of the tile is {self.width}: use a power of two, {self.granule} or more"
        if threads & (threads - 1) or self.elements % (self.vector * threads):
            return (
                f"{threads} threads cannot share {self.along} by {self.depth} elements evenly: use a larger tile, "
                "or fewer warps"
            )
        return None


@dataclass(frozen=True, slots=True)
class Staging:
    """A block of ``across[0]`` by ``across[1]`` warps multiplies one tile, in steps of k, out of ``stages`` stages.

    A multiprocessor has registers for ``residents`` blocks: two hide each other's waits, one has more for each thread.

    The blocks take tiles in bands of eight rows of tiles, from left to right: those that run at once then read few
    rows of the first matrix and few columns of the second, which the L2 cache keeps for them.
    """

    first: Side
    second: Side
    across: tuple[int, int]
    stages: int
    residents: int = 1

    @property
    def threads(self) -> int:
        """How many threads a block has."""
        return WARP * self.across[0] * self.across[1]

    @property
    def depth(self) -> int:
        """How much of k a step takes."""
        return self.first.depth

    @property
    def bytes(self) -> int:
        """The shared memory of all stages."""
        return self.stages * (self.first.elements + self.second.elements) * self.first.bits // 8

    @property
    def at_once(self) -> int:
        """How many blocks a multiprocessor holds, where shared memory is largest."""
        return max(1, min(self.residents, (max(_SHARED.values()) + _RESERVED) // (self.bytes + _RESERVED)))

    @property
    def warp_rows(self) -> int:
        """How many rows of the tile are a warp's."""
        return self.first.along // self.across[0]

    @property
    def warp_columns(self) -> int:
        """How many columns of the tile are a warp's."""
        return self.second.along // self.across[1]

    def corner(self, warp: Any) -> tuple[Any, Any]:
        """The first row and column, in the tile, of a warp's part."""
        right = self.across[1]
        return (warp >> _log(right)) * self.warp_rows, (warp & (right - 1)) * self.warp_columns

    def steps(self, k: Any) -> Any:
        """How many steps a product takes.

        >>> sides = [Side(128, 32, contiguous_k=True, bits=16, granule=8, together=8, copied=16)] * 2
        >>> Staging(*sides, across=(2, 2), stages=4).steps(100)
        4
        """
        return (k + self.depth - 1) // self.depth

    def tiles(self, m: Any, n: Any) -> tuple[Any, Any]:
        """How many rows and columns of tiles a result has."""
        return (m + self.first.along - 1) // self.first.along, (n + self.second.along - 1) // self.second.along

    def tile(self, block: Any, rows: Any, columns: Any, least: Any = min) -> tuple[Any, Any]:
        """The row and column of tiles of a block, of a result with that many. ``least`` is the smaller of two."""
        band = block // (_BAND * columns)
        height = least(rows - band * _BAND, _BAND)
        rest = block - band * _BAND * columns
        return band * _BAND + rest % height, rest // height

    def refusal(self, unit: tuple[int, int, int], target: Target) -> str | None:
        """Why a block cannot do this with warps that work in units of (m, n, k), or None."""
        if min(*self.across, self.first.along, self.second.along, self.depth, self.residents) < 1:
            return "the sides of a tile, warps and residents are counted from 1: use larger numbers"
        if self.threads * self.residents > 1024:
            return f"{self.threads} threads, {self.residents} times, are too many: use 1024 at most, or fewer residents"
        for name, size, parts, step in (
            ("m", self.first.along, self.across[0], unit[0]),
            ("n", self.second.along, self.across[1], unit[1]),
            ("k", self.depth, 1, unit[2]),
        ):
            if size % (parts * step):
                return f"the {name} of the tile is {size}: use a multiple of {parts * step}"
        if self.stages < 2:
            return f"stages is {self.stages}: use 2 or more, so that one is filled while another is read"
        most = _SHARED.get(target.major, _LEAST)
        if self.bytes > most:
            return f"{self.stages} stages take {self.bytes} bytes, of {most} on {target}: use fewer, or a smaller tile"
        return self.first.refusal(self.threads) or self.second.refusal(self.threads)


@dataclass(frozen=True, slots=True)
class Threads:
    """How the threads of a warp share its part of a tile where each multiplies alone: four by eight of them, each with
    some rows and, of the columns, runs of four.

    Those that read at once then read four neighbouring rows of the first side, and eight neighbouring runs of the
    second.

    >>> threads = Threads(rows=8, columns=8)
    >>> threads.first(9), threads.row(1), threads.column(1)
    ((1, 4), 4, 32)
    """

    rows: int
    columns: int

    def first(self, lane: Any) -> tuple[Any, Any]:
        """The first row and column of a thread."""
        return lane >> 3, (lane & 7) * 4

    def row(self, number: int) -> int:
        """The distance in rows from a thread's first row to another of its rows."""
        return 4 * number

    def column(self, number: int) -> int:
        """The distance in columns from a thread's first run to another of its runs."""
        return 32 * number
