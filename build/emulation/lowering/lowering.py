"""The lowering of one kernel: what a family's functions use to read a statement and to emit instructions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from precast.build.emulation.errors import Unsupported
from precast.build.emulation.lowering.modifiers import Modifiers
from precast.build.emulation.lowering.names import Names
from precast.build.emulation.lowering.operands import (
    ABSENT,
    Address,
    Initial,
    Instruction,
    Operand,
    Pool,
    Target,
    Targets,
)
from precast.build.emulation.lowering.registry import lowers
from precast.build.emulation.lowering.symbols import Symbols
from precast.build.emulation.ptx.literals import literal_bits
from precast.build.emulation.ptx.module import Function, Label, Module, Scope, Statement
from precast.build.emulation.ptx.reader import split_operands
from precast.build.emulation.ptx.special_registers import special_number

__all__ = ["ABSENT", "Address", "Lowering", "Modifiers", "Operand", "Pool", "Unsupported", "lowers"]

_ADDRESS = re.compile(r"\[\s*([\w$%.]*)\s*(?:([+-])\s*(-?[\w]+)\s*)?\]$")
Emitted: TypeAlias = "int | Operand | Pool | Address | Targets"


class Lowering:
    """One kernel on its way to instructions, and the statement that is lowered now.

    ``modifiers`` are the words of its opcode after the first, ``operands`` its operands as they are written.
    """

    def __init__(self, operations: Mapping[str, int], symbols: Symbols, target: str) -> None:
        self.operations = operations
        self.symbols = symbols
        self.architecture = target
        self.names = Names()
        self.instructions: list[Instruction] = []
        self.places: dict[Target, int] = {}
        self.sources: dict[int, tuple[int, int]] = {}  # a line of the PTX: a file's number and the author's line
        self.call = 0  # the number of the call that is written out now; 0 in the kernel itself
        self.statement: Statement
        self.opcode = ""
        self.operands: list[str] = []
        self.modifiers = Modifiers([])
        self.module: Module
        self.function: Function
        self.returns: Target | None = None  # where a called function continues when it returns
        self.arguments: dict[str, int] = {}  # parameters of a called function: where they are in local memory
        self.stack: list[str] = []
        self._calls = 0
        self._carry: Operand | None = None
        self._guard = (-1, False)

    # Statements

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

    def mark(self, label: Label) -> None:
        """The next instruction is at a label."""
        self.places[Target(label.name, self._scope_number(label.scope))] = len(self.instructions)

    @property
    def scope(self) -> Scope:
        """In which names of the statement are looked up."""
        return self.statement.scope

    def expect(self, *counts: int) -> None:
        """Refuse another number of operands."""
        if len(self.operands) not in counts:
            raise Unsupported(f"it has {len(self.operands)} operands, not {' or '.join(map(str, counts))}")

    # Operands

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

    def predicate(self, text: str) -> Operand:
        """A predicate that is read: a register, ``!p``, or a constant."""
        if text in ("0", "1", "-1", "true", "false"):
            return self.names.constant(Initial.PREDICATE, int(text not in ("0", "false")))
        register = Operand(self._known(text.removeprefix("!"), 1), reads=True)
        if not text.startswith("!"):
            return register
        negated = self.temporary(1)
        self.emit("not_pred", negated, register, guarded=False)
        return self.read(negated)

    def address(self, text: str) -> Address:
        """An address in brackets."""
        match = _ADDRESS.match(text)
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
        match = _ADDRESS.match(text)
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

    # Instructions

    def emit(
        self,
        name: str,
        *operands: Emitted,
        immediate: int | Target = 0,
        jumps: tuple[Target, ...] = (),
        ends: bool = False,
        guarded: bool = True,
    ) -> None:
        """Append an instruction.

        Parameters
        ----------
        name
            The operation's name in the interpreter.
        operands
            In the order of its places. An Address packs as its register's place and 0 or 1 for 64 bits; its offset
            goes into ``immediate`` if that is free, else it is added first.
        immediate
            A number of 64 bits, or a label.
        jumps, ends
            The labels at which lanes may continue, and whether none continues with the next instruction.
        guarded
            Whether the statement's guard holds for it.
        """
        if name not in self.operations:
            raise Unsupported(f"the interpreter lacks the operation {name}")
        packed: list[int | Operand | Pool | Targets] = []
        for operand in operands:
            if isinstance(operand, Address):
                if operand.offset and (immediate or any(isinstance(o, Address) and o is not operand for o in operands)):
                    operand = self._with_offset(operand)
                elif operand.offset:
                    immediate = operand.offset
                packed += [operand.register, int(operand.wide)]
            else:
                packed.append(operand)
        guard, negated = self._guard if guarded else (-1, False)
        self.instructions.append(
            Instruction(
                self.operations[name],
                self.statement.line,
                guard,
                negated,
                packed,
                immediate,
                jumps,
                not ends or guard >= 0,
            )
        )

    def finish(self) -> None:
        """Check that the statement is done."""
        self.modifiers.finish()

    def load_parameter(self, name: str, targets: list[Operand], address: Address) -> bool:
        """Load a parameter of the kernel from where it always is; False where its address is in a register."""
        constant = self.names.value(address.register)
        if constant is None or constant[0] != Initial.PARAMETER_ADDRESS:
            return False
        self.emit(f"{name}_param", self.pool(targets), immediate=constant[1] + address.offset)
        return True

    def carry(self) -> Operand:
        """The carry flag, to be written."""
        if self._carry is None:
            self._carry = self.temporary(1)
        return self._carry

    def next_call(self) -> int:
        """A number for a call that is written out."""
        self._calls += 1
        return self._calls

    def emit_unless_guard(self, target: Target) -> None:
        """Jump where the statement's guard is false."""
        guard, negated = self._guard
        self.emit("bra", immediate=target, jumps=(target,), ends=True, guarded=False)
        self.instructions[-1].guard, self.instructions[-1].negated = guard, not negated
        self.instructions[-1].falls_through = True

    def clear_guard(self) -> None:
        """What follows in the statement has no guard."""
        self._guard = (-1, False)

    def protect_guard(self, first: int) -> None:
        """If the statement's instructions from ``first`` on write their guard, let all of them use a copy of it."""
        mine = self.instructions[first:]
        guard = self._guard[0]
        if guard < 0 or not any(o.writes and o.register == guard for i in mine[:-1] for o in i.registers()):
            return
        copy = self.temporary(1)
        self.emit("mov_pred", copy, Operand(guard, reads=True), guarded=False)
        self.instructions.insert(first, self.instructions.pop())
        for instruction in mine:
            if instruction.guard == guard:
                instruction.guard = copy.register

    def _with_offset(self, address: Address) -> Address:
        if address.register.absent:
            return Address(self.number(address.offset, 64), True)
        bits = 64 if address.wide else 32
        total = self.temporary(bits)
        self.emit(f"add_u{bits}", total, address.register, self.number(address.offset, bits), guarded=False)
        return Address(self.read(total), address.wide)

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
