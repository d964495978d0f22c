"""Places in a warp's register file, by a scan over the instructions.

A target never shares its place with a source of its instruction, so that an operation may write before it has read
all lanes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from precast.build.emulation.allocation.liveness import Liveness

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
        Of each register, by number.
    liveness
        Between which instructions it is needed.
    constants
        Registers that hold their value throughout.
    """
    order = sorted((begin, register) for register, begin in liveness.begins.items())
    predicates = [(begin, register) for begin, register in order if bits[register] == 1]
    others = [(begin, register) for begin, register in order if bits[register] != 1]
    flags, flag_count = _scan(predicates, [1] * len(bits), liveness)
    sizes = [_slots(width) for width in bits]
    slots, slot_count = _scan(others, sizes, liveness)
    for register in constants:
        if bits[register] == 1:
            flags[register] = flag_count
            flag_count += 1
        else:
            slots[register] = slot_count
            slot_count += sizes[register]
    base = -(-flag_count // _ALIGN) * _ALIGN
    places = dict(flags)
    places.update((register, base + LANES * slot) for register, slot in slots.items())
    return Places(places, base + LANES * slot_count)


def words_of(bits: int) -> int:
    """The words of a register's place.

    >>> words_of(1), words_of(16), words_of(64)
    (1, 32, 64)
    """
    return 1 if bits == 1 else LANES * _slots(bits)


def _slots(bits: int) -> int:
    return max(1, bits // 32)


def _scan(order: Sequence[tuple[int, int]], sizes: Sequence[int], liveness: Liveness) -> tuple[dict[int, int], int]:
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
