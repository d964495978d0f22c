"""The lowering of one kernel: what a family's functions use to read a statement and to emit instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from precast.emulator.errors import Unsupported
from precast.emulator.lowering.modifiers import Modifiers
from precast.emulator.lowering.operands import (
    ABSENT,
    Address,
    Initial,
    Instruction,
    Operand,
    Pool,
    Target,
    Targets,
)
from precast.emulator.lowering.registry import Lower, lowering_functions, lowers
from precast.emulator.lowering.statement import StatementReader
from precast.emulator.lowering.symbols import Symbols
from precast.emulator.ptx.contraction import contracted
from precast.emulator.ptx.module import Function, Label, Module, Statement

__all__ = ["ABSENT", "Address", "Lowering", "Modifiers", "Operand", "Pool", "Unsupported", "lowers"]

Emitted: TypeAlias = "int | Operand | Pool | Address | Targets"


class Lowering(StatementReader):
    """One kernel on its way to instructions, and the statement that is lowered now."""

    def __init__(self, operations: Mapping[str, int], symbols: Symbols, target: str) -> None:
        super().__init__(symbols)
        self.operations = operations
        self.architecture = target
        self.instructions: list[Instruction] = []
        self.places: dict[Target, int] = {}
        self.module: Module
        self.function: Function
        self.returns: Target | None = None  # where a called function continues when it returns
        self.stack: list[str] = []
        self._calls = 0
        self._carry: Operand | None = None

    def mark(self, label: Label) -> None:
        """The next instruction is at a label."""
        self.places[Target(label.name, self._scope_number(label.scope))] = len(self.instructions)

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


def lower_kernel(
    module: Module,
    kernel: Function,
    operations: Mapping[str, int],
    globals_at: Mapping[str, int],
    refused: Callable[[Unsupported], None] | None = None,
) -> Lowering:
    """Lower a kernel.

    Parameters
    ----------
    module, kernel
        What is lowered.
    operations
        The numbers of the interpreter's operations.
    globals_at
        The addresses of the module's variables.
    refused
        Takes what is not emulated, and the lowering continues; without it, that is raised.
    """
    lowering = Lowering(operations, Symbols(module, kernel, globals_at), module.target)
    lowering.module = module
    lower_body(lowering, kernel, refused)
    if not lowering.instructions or lowering.instructions[-1].falls_through:
        lowering.emit("exit", ends=True, guarded=False)
    return lowering


def function_of(lowering: Lowering) -> Lower:
    """The function for the statement's opcode: by its first two words, such as ``st.async``, or by its first."""
    functions = lowering_functions()
    two = f"{lowering.opcode}.{lowering.modifiers.left[0]}" if lowering.modifiers.left else ""
    if two in functions:
        return functions[two]
    if lowering.opcode not in functions:
        raise Unsupported(f"{lowering.opcode} is not emulated")
    return functions[lowering.opcode]


def lower_body(lowering: Lowering, function: Function, refused: Callable[[Unsupported], None] | None = None) -> None:
    """Lower the statements of a function where the lowering is."""
    outer, lowering.function = getattr(lowering, "function", function), function
    for item in contracted(function.body):
        if not isinstance(item, Statement):
            lowering.mark(item)
            continue
        first = len(lowering.instructions)
        try:
            lowering.begin(item)
            function_of(lowering)(lowering)
            lowering.finish()
            lowering.protect_guard(first)
        except Unsupported as error:
            error.line = error.line or item.line
            error.statement = error.statement or str(item)
            if refused is None:
                raise
            refused(error)
            del lowering.instructions[first:]
    lowering.function = outer
