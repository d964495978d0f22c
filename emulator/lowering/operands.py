"""What an instruction of the interpreter refers to: registers, lists of them, addresses and labels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Initial(IntEnum):
    """What a register that no instruction writes holds; as in interpreter/core/program.h."""

    WORD = 0
    DOUBLE_WORD = 1
    PREDICATE = 2
    PARAMETER_ADDRESS = 3
    SHARED_ADDRESS = 4
    SHARED_ADDRESS_WIDE = 5
    DYNAMIC_ADDRESS = 6
    DYNAMIC_ADDRESS_WIDE = 7
    SPECIAL = 8

    @property
    def bits(self) -> int:
        """The bits of the register."""
        return _BITS.get(self, 32)


_BITS = {
    Initial.DOUBLE_WORD: 64,
    Initial.PREDICATE: 1,
    Initial.PARAMETER_ADDRESS: 64,
    Initial.SHARED_ADDRESS_WIDE: 64,
    Initial.DYNAMIC_ADDRESS_WIDE: 64,
}


@dataclass(frozen=True, slots=True)
class Operand:
    """A register of an instruction, and whether it is read or written. ``register`` is -1 where there is none."""

    register: int
    reads: bool = False
    writes: bool = False

    @property
    def absent(self) -> bool:
        """Whether there is none: ``_``, or an absolute address."""
        return self.register < 0


ABSENT = Operand(-1)


@dataclass(frozen=True, slots=True)
class Address:
    """An address in brackets: a register, whether it has 64 bits, and an offset."""

    register: Operand
    wide: bool
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """Registers in a list outside of the instruction. It packs as two numbers: where it begins, and how many it has."""

    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A label, in the scope that declares it."""

    name: str
    scope: int


@dataclass(frozen=True, slots=True)
class Targets:
    """Labels in a list outside of the instruction; packs as a Pool does."""

    labels: tuple[Target, ...]


@dataclass(slots=True)
class Instruction:
    """An instruction of the interpreter, before registers have places."""

    operation: int
    line: int
    guard: int  # the predicate's register, or -1
    negated: bool
    operands: list[int | Operand | Pool | Targets]
    immediate: int | Target
    jumps: tuple[Target, ...] = ()
    falls_through: bool = True

    def registers(self) -> list[Operand]:
        """All registers, those of lists, too."""
        collected: list[Operand] = []
        for operand in self.operands:
            if isinstance(operand, Operand):
                if operand.register >= 0:
                    collected.append(operand)
            elif isinstance(operand, Pool):
                collected += [member for member in operand.operands if member.register >= 0]
        return collected
