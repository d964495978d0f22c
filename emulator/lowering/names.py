"""The virtual registers of a kernel: those that it declares, temporary ones, and constants."""

from __future__ import annotations

from precast.emulator.lowering.operands import Initial, Operand
from precast.emulator.ptx.module import Scope


class Names:
    """Numbers for registers, and the bits of each. Constants are registers that no instruction writes."""

    def __init__(self) -> None:
        self.bits: list[int] = []
        self.constants: dict[tuple[Initial, int], int] = {}
        self._values: dict[int, tuple[Initial, int]] = {}
        self._declared: dict[tuple[int, str], int] = {}

    def temporary(self, bits: int) -> int:
        """A new register."""
        self.bits.append(bits)
        return len(self.bits) - 1

    def declared(self, name: str, scope: Scope, call: int = 0) -> tuple[int, int] | None:
        """The number and the bits of a register that a scope declares, or None."""
        entry = scope.register(name)
        if entry is None:
            return None
        owner, bits = entry
        key = (owner.number + (call << 32), name)
        number = self._declared.get(key)
        if number is None:
            number = self._declared[key] = self.temporary(bits)
        return number, bits

    def constant(self, kind: Initial, value: int) -> Operand:
        """The register that holds a constant."""
        number = self.constants.get((kind, value))
        if number is None:
            number = self.constants[kind, value] = self.temporary(kind.bits)
            self._values[number] = kind, value
        return Operand(number, reads=True)

    def value(self, operand: Operand) -> tuple[Initial, int] | None:
        """What a register holds that is a constant, or None."""
        return self._values.get(operand.register)
