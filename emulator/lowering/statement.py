"""A statement that is lowered: its words, and its operands as registers, numbers and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from precast.emulator.errors import Unsupported
from precast.emulator.lowering.modifiers import Modifiers
from precast.emulator.lowering.names import Names
from precast.emulator.lowering.operands import ABSENT, Address, Initial, Operand, Pool, Target
from precast.emulator.lowering.symbols import Symbols
from precast.emulator.ptx.literals import literal_bits
from precast.emulator.ptx.module import Scope, Statement
from precast.emulator.ptx.reader import split_operands
from precast.emulator.ptx.special_registers import special_number

ADDRESS = re.compile(r"\[\s*([\w$%.]*)\s*(?:([+-])\s*(-?[\w]+)\s*)?\]$")


class StatementReader:
    """The statement that is lowered now, and the names that it may use.

    ``modifiers`` are the words of its opcode after the first, ``operands`` its operands as they are written.
    """

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.names = Names()
        self.sources: dict[int, tuple[int, int]] = {}  # a line of the PTX: a file's number and the author's line
        self.call = 0  # the number of the call that is written out now; 0 in the kernel itself
        self.arguments: dict[str, int] = {}  # parameters of a called function: where they are in local memory
        self.statement: Statement
        self.opcode = ""
        self.operands: list[str] = []
        self.modifiers = Modifiers([])
        self._guard = (-1, False)

    def begin(self, statement: Statement) -> None:
        """Go to a statement."""
        self.statement = statement
        self.opcode, *words = statement.opcode.split(".")
        self.modifiers = Modifiers(words)
        self.operands = list(statement.operands)
        if statement.source:
            self.sources[statement.line] = statement.source
        self._guard = (-1, False)
        if statement.guard:
            predicate = self._register(statement.guard.removeprefix("!"), 1)
            if predicate is None:
                raise Unsupported(f"the guard {statement.guard} is not a declared predicate")
            self._guard = predicate, statement.guard.startswith("!")

    @property
    def scope(self) -> Scope:
        """In which names of the statement are looked up."""
        return self.statement.scope

    def expect(self, *counts: int) -> None:
        """Refuse another number of operands."""
        if len(self.operands) not in counts:
            raise Unsupported(f"it has {len(self.operands)} operands, not {' or '.join(map(str, counts))}")

    def target(self, text: str, bits: int = 0) -> Operand:
        """A register that is written; ABSENT for ``_``."""
        if text == "_":
            return ABSENT
        return Operand(self._known(text, bits), writes=True)

    def both(self, text: str, bits: int = 0) -> Operand:
        """A register that is read and written."""
        return Operand(self._known(text, bits), reads=True, writes=True)

    def source(self, text: str, bits: int = 32) -> Operand:
        """A value of so many bits: a register, a number, a special register, or a symbol's address."""
        register = self._register(text, bits)
        if register is not None:
            return Operand(register, reads=True)
        pattern = literal_bits(text, bits)
        if pattern is not None:
            return self.number(pattern, bits)
        number = special_number(text)
        if number is not None:
            if bits != 32:
                raise Unsupported(f"{text} has 32 bits, not {bits}")
            return self.names.constant(Initial.SPECIAL, number)
        if bits == 32 and text == "WARP_SZ":
            return self.number(32)
        symbol, _, offset = text.partition("+")
        return self.symbol(symbol.strip(), bits, literal_bits(offset.strip() or "0", 64) or 0)

    def number(self, value: int, bits: int = 32) -> Operand:
        """A constant."""
        value &= (1 << bits) - 1
        return self.names.constant(Initial.DOUBLE_WORD if bits == 64 else Initial.WORD, value)

    def symbol(self, name: str, bits: int, offset: int = 0) -> Operand:
        """A variable's address."""
        kind, value = self.symbols.address(name, self.scope, wide=bits == 64, call=self.call)
        return self.names.constant(kind, value + offset)

    def address(self, text: str) -> Address:
        """An address in brackets."""
        match = ADDRESS.match(text)
        if match is None:
            raise Unsupported(f"the address {text} is not emulated")
        name, sign, digits = match.groups()
        offset = literal_bits(digits or "0", 64)
        if offset is None:
            raise Unsupported(f"the offset {digits} is not a number")
        offset = offset - (1 << 64) if offset >> 63 else offset
        offset = -offset if sign == "-" else offset
        absolute = literal_bits(name, 64)
        if absolute is not None:
            return Address(ABSENT, True, absolute + offset)
        entry = self.names.declared(name, self.scope, self.call)
        if entry is not None:
            register, bits = entry
            if bits not in (32, 64):
                raise Unsupported(f"the address register {name} has {bits} bits")
            return Address(Operand(register, reads=True), bits == 64, offset)
        if name in self.arguments:
            return Address(self.number(self.arguments[name]), False, offset)
        kind, value = self.symbols.address(name, self.scope, wide=False, call=self.call)
        return Address(self.names.constant(kind, value), kind.bits == 64, offset)

    def local_parameter(self, name: str) -> int:
        """Where a parameter of a call is in local memory; a caller's own argument may be passed on."""
        if name in self.arguments:
            return self.arguments[name]
        offset = self.symbols.local_parameter(name, self.scope, self.call)
        if offset is None:
            raise Unsupported(f"the argument {name} is not a declared .param")
        return offset

    def is_local_parameter(self, text: str) -> bool:
        """Whether an address in brackets is that of a parameter of a call, not of the kernel."""
        match = ADDRESS.match(text)
        name = match[1] if match else ""
        return name in self.arguments or self.symbols.local_parameter(name, self.scope, self.call) is not None

    def items(self, text: str) -> list[str]:
        """The items of a list in braces, or the parts of a vector; a single operand is a list of one."""
        text = text.strip()
        if text.startswith("{"):
            return list(split_operands(text[1:-1].strip()))
        parts = [f"{text}.{letter}" for letter in "xyzw"]
        return [part for part in parts if self.scope.register(part)] or [text]

    def bits(self, text: str) -> int:
        """The bits of a register, or 0 where the operand is not one."""
        entry = self.names.declared(text, self.scope, self.call)
        return entry[1] if entry else 0

    def pool(self, operands: Iterable[Operand]) -> Pool:
        """Registers as a list outside of the instruction."""
        return Pool(tuple(operands))

    def temporary(self, bits: int) -> Operand:
        """A new register, to be written."""
        return Operand(self.names.temporary(bits), writes=True)

    def read(self, operand: Operand) -> Operand:
        """The same register, to be read."""
        return Operand(operand.register, reads=True)

    def label(self, name: str) -> Target:
        """A label that the statement sees."""
        scope = self.scope.label(name)
        if scope is None:
            raise Unsupported(f"the label {name} is not declared")
        return Target(name, self._scope_number(scope))

    def _scope_number(self, scope: Scope) -> int:
        return scope.number + (self.call << 32)

    def _known(self, text: str, bits: int) -> int:
        register = self._register(text, bits)
        if register is None:
            raise Unsupported(f"{text} is not a declared register")
        return register

    def _register(self, text: str, bits: int) -> int | None:
        """A declared register, which must have a place for so many bits; 0 allows any."""
        entry = self.names.declared(text, self.scope, self.call)
        if entry is None:
            return None
        register, own = entry
        if bits and _place(own) != _place(bits):
            raise Unsupported(f"{text} has {own} bits, not {bits}")
        return register


def _place(bits: int) -> int:
    return bits if bits in (1, 64, 128) else 32
