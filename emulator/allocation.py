"""Allocation: places in a warp's register file, by the liveness of registers and a scan over the instructions.

Liveness is between which instructions a register holds a value that is needed, in one thread. A place has a word for
each lane, and each lane follows a path of its own, so lanes that are apart do not need more.

Registers of different sizes never share a place: a lane's part of one would be another lane's part of the other, and
lanes may be apart. A target never shares its place with a source of its instruction, so that an operation may write
before it has read all lanes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from precast.emulator.errors import Unsupported
from precast.emulator.lowering.operands import Instruction, Target


@dataclass(frozen=True, slots=True)
class Liveness:
    """The first and the last instruction that each register lives at; those that are read before they are written."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]
    undefined: frozenset[int]


@dataclass(slots=True)
class _Part:  # instructions that are executed together
    begin: int
    end: int
    next: tuple[int, ...] = ()
    uses: int = 0  # registers, as bits
    kills: int = 0
    live_in: int = 0
    live_out: int = 0


def find_liveness(
    instructions: Sequence[Instruction], places: Mapping[Target, int], constants: frozenset[int]
) -> Liveness:
    """The liveness of all registers but constants."""
    parts = _parts(instructions, places)
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for part in parts:
        uses = kills = 0
        for index in range(part.begin, part.end):
            instruction = instructions[index]
            reads, writes = _accesses(instruction, constants)
            for register in reads:
                bit = 1 << register
                if not kills & bit:
                    uses |= bit
            for register in writes:
                bit = 1 << register
                if instruction.guard < 0:
                    kills |= bit
                elif not kills & bit:
                    uses |= bit  # lanes for which the guard is false keep the old value
            for register in (*reads, *writes):
                begins.setdefault(register, index)
                ends[register] = index
        part.uses, part.kills = uses, kills
    _flow(parts)
    for part in parts:
        for register in _members(part.live_in):
            begins[register] = min(begins[register], part.begin)
            ends[register] = max(ends[register], part.begin)
        for register in _members(part.live_out):
            begins[register] = min(begins[register], part.end - 1)
            ends[register] = max(ends[register], part.end)
    undefined = frozenset(_members(parts[0].live_in)) if parts else frozenset()
    return Liveness(begins, ends, undefined)


def _accesses(instruction: Instruction, constants: frozenset[int]) -> tuple[list[int], list[int]]:
    reads, writes = [], []
    if instruction.guard >= 0 and instruction.guard not in constants:
        reads.append(instruction.guard)
    for operand in instruction.registers():
        if operand.register in constants:
            continue
        if operand.reads:
            reads.append(operand.register)
        if operand.writes:
            writes.append(operand.register)
    return reads, writes


def _parts(instructions: Sequence[Instruction], places: Mapping[Target, int]) -> list[_Part]:
    leaders = {0, *places.values()}
    for index, instruction in enumerate(instructions):
        if instruction.jumps or not instruction.falls_through:
            leaders.add(index + 1)
    starts = sorted(position for position in leaders if position < len(instructions))
    number = {start: i for i, start in enumerate(starts)}
    parts = []
    for i, start in enumerate(starts):
        end = starts[i + 1] if i + 1 < len(starts) else len(instructions)
        last = instructions[end - 1]
        following = {number[position] for label in last.jumps if (position := _place(label, places)) in number}
        if last.falls_through and end < len(instructions):
            following.add(i + 1)
        parts.append(_Part(start, end, tuple(following)))
    return parts


def _place(label: Target, places: Mapping[Target, int]) -> int:
    if label not in places:
        raise Unsupported(f"the label {label.name} is not in the function")
    return places[label]


def _flow(parts: list[_Part]) -> None:
    """Let what a part needs live through those before it, until nothing changes."""
    before: list[list[int]] = [[] for _ in parts]
    for i, part in enumerate(parts):
        for following in part.next:
            before[following].append(i)
    waiting = list(range(len(parts)))
    queued = set(waiting)
    while waiting:
        i = waiting.pop()
        queued.discard(i)
        part = parts[i]
        out = 0
        for following in part.next:
            out |= parts[following].live_in
        part.live_out = out
        live_in = part.uses | (out & ~part.kills)
        if live_in != part.live_in:
            part.live_in = live_in
            for earlier in before[i]:
                if earlier not in queued:
                    queued.add(earlier)
                    waiting.append(earlier)


def _members(bits: int) -> list[int]:
    members = []
    text = bin(bits)[:1:-1]
    position = text.find("1")
    while position >= 0:
        members.append(position)
        position = text.find("1", position + 1)
    return members


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
