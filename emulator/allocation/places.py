"""Places in a warp's register file, by a scan over the instructions.

Registers of different sizes never share a place: a lane's part of one would be another lane's part of the other, and
lanes may be apart. A target never shares its place with a source of its instruction, so that an operation may write
before it has read all lanes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from precast.emulator.allocation.liveness import Liveness

LANES = 32
_ALIGN = 16  # words


@dataclass(frozen=True, slots=True)
class Places:
    """The place of each register, in words, and the words of a warp's register file."""

    of: Mapping[int, int]
    words: int


def allocate(bits: Sequence[int], liveness: Liveness, constants: Sequence[int]) -> Places:
    """Give each register that is used a place.

    Parameters
    ----------
    bits
        The bits of each register, by number.
    liveness
        Between which instructions it is needed.
    constants
        Registers that hold their value throughout.
    """
    order = sorted((begin, register) for register, begin in liveness.begins.items())
    places: dict[int, int] = {}
    words = 0
    for unit in (1, LANES, 2 * LANES):
        sizes = {register: _size(bits[register], unit) for _, register in order}
        mine = [(begin, register) for begin, register in order if sizes[register]]
        taken, count = _scan(mine, sizes, liveness)
        for register in constants:
            if size := _size(bits[register], unit):
                taken[register] = count
                count += size
        places.update((register, words + unit * slot) for register, slot in taken.items())
        words = -(-(words + unit * count) // _ALIGN) * _ALIGN
    return Places(places, words)


def words_of(bits: int) -> int:
    """The words of a register's place.

    >>> words_of(1), words_of(16), words_of(64)
    (1, 32, 64)
    """
    return 1 if bits == 1 else LANES * max(1, bits // 32)


def _size(bits: int, unit: int) -> int:
    """How many places of a unit, in words, a register takes; 0 if its places have another unit."""
    if unit == 1:
        return int(bits == 1)
    if unit == LANES:
        return int(1 < bits <= 32)
    return bits // 64


def _scan(order: Sequence[tuple[int, int]], sizes: Mapping[int, int], liveness: Liveness) -> tuple[dict[int, int], int]:
    taken: dict[int, int] = {}
    active: list[tuple[int, int]] = []  # the last instruction and the register
    used = count = 0  # slots, as bits; the highest one
    for begin, register in order:
        while active and active[0][0] < begin:
            _, ended = heapq.heappop(active)
            used &= ~(((1 << sizes[ended]) - 1) << taken[ended])
        size = sizes[register]
        free = ~used
        for distance in range(1, size):
            free &= ~used >> distance
        slot = (free & -free).bit_length() - 1
        taken[register] = slot
        used |= ((1 << size) - 1) << slot
        count = max(count, slot + size)
        heapq.heappush(active, (liveness.ends[register], register))
    return taken, count
