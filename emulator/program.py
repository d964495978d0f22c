"""A kernel that is ready to run: its lowered instructions, with places for registers, packed."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from precast.emulator.allocation import Places, allocate, find_liveness, words_of
from precast.emulator.errors import Unsupported
from precast.emulator.lowering.lowering import Lowering, lower_kernel
from precast.emulator.lowering.operands import Instruction, Operand, Pool, Target
from precast.emulator.ptx.module import Function, Module
from precast.emulator.structures import OPERANDS, ConstantStructure, ProgramStructure

_INSTRUCTION = struct.Struct(f"<Qi{OPERANDS}iq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A packed kernel.

    ``parameters`` are the offset and size of each parameter; ``sources`` maps a line of the PTX to a file's number and
    the author's line. ``kept`` holds the memory that ``structure`` points to.
    """

    name: str
    structure: ProgramStructure
    parameters: tuple[tuple[int, int], ...]
    sources: Mapping[int, tuple[int, int]]
    lines: tuple[int, ...]
    kept: tuple[object, ...]

    @property
    def register_bytes(self) -> int:
        """The bytes of a warp's registers."""
        return 4 * int(self.structure.register_words)


def make_program(
    module: Module, kernel: Function, operations: Mapping[str, int], globals_at: Mapping[str, int]
) -> Program:
    """Lower a kernel and pack it, or raise Unsupported."""
    lowering = lower_kernel(module, kernel, operations, globals_at)
    constants = lowering.names.constants
    instructions = lowering.instructions
    liveness = find_liveness(instructions, lowering.places, frozenset(constants.values()))
    places = allocate(lowering.names.bits, liveness, tuple(constants.values()))
    code, pool = _pack(lowering, instructions, places)
    lines = tuple(instruction.line for instruction in instructions)
    symbols = lowering.symbols
    packed_constants = (ConstantStructure * len(constants))(
        *(ConstantStructure(places.of[register], int(kind), value) for (kind, value), register in constants.items())
    )
    poisoned = [
        word
        for register in sorted(liveness.undefined)
        for word in (places.of[register], words_of(lowering.names.bits[register]))
    ]
    arrays = (
        ctypes.create_string_buffer(code, len(code)),
        _integers(pool),
        _integers(lines),
        packed_constants,
        _integers(poisoned),
    )
    structure = ProgramStructure(
        *(ctypes.addressof(array) for array in arrays),
        len(instructions),
        len(pool),
        len(constants),
        len(poisoned) // 2,
        places.words,
        symbols.static_shared,
        symbols.dynamic_offset,
        symbols.local_bytes,
        symbols.parameter_bytes,
    )
    return Program(
        name=kernel.name,
        structure=structure,
        parameters=tuple((symbols.offsets[p.name], p.size) for p in kernel.parameters),
        sources=lowering.sources,
        lines=lines,
        kept=arrays,
    )


def _integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    return (ctypes.c_int32 * max(1, len(values)))(*values)


def _pack(lowering: Lowering, instructions: Sequence[Instruction], places: Places) -> tuple[bytes, list[int]]:
    pool: list[int] = []
    lists: dict[tuple[int, ...], int] = {}
    code = bytearray()

    def place_of(operand: Operand) -> int:
        return -1 if operand.register < 0 else places.of[operand.register]

    def listed(values: tuple[int, ...]) -> tuple[int, int]:
        begin = lists.setdefault(values, len(pool))
        if begin == len(pool):
            pool.extend(values)
        return begin, len(values)

    for instruction in instructions:
        packed: list[int] = []
        for operand in instruction.operands:
            if isinstance(operand, int):
                packed.append(operand)
            elif isinstance(operand, Operand):
                packed.append(place_of(operand))
            elif isinstance(operand, Pool):
                packed += listed(tuple(place_of(register) for register in operand.operands))
            else:
                packed += listed(tuple(_jump(lowering, label) for label in operand.labels))
        if len(packed) > OPERANDS:
            raise Unsupported("it has more operands than an instruction holds", line=instruction.line)
        packed += [-1] * (OPERANDS - len(packed))
        guard = instruction.guard
        immediate = instruction.immediate
        code += _INSTRUCTION.pack(
            instruction.operation,
            -1 if guard < 0 else places.of[guard] * 2 + instruction.negated,
            *packed,
            _jump(lowering, immediate) if isinstance(immediate, Target) else _signed(immediate),
        )
    return bytes(code), pool


def _jump(lowering: Lowering, label: Target) -> int:
    return lowering.places[label]


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
