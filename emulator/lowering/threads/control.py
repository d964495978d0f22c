"""Jumps, returns, and what ends a thread."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering, Unsupported, lowers
from precast.emulator.lowering.operands import Targets


@lowers("bra")
def jump(to: Lowering) -> None:
    """``bra``: ``.uni`` is a promise that needs no check, since lanes that part are run apart."""
    to.modifiers.take("uni")
    to.expect(1)
    label = to.label(to.operands[0])
    to.emit("bra", immediate=label, jumps=(label,), ends=True)


@lowers("brx")
def jump_by_index(to: Lowering) -> None:
    """``brx.idx``: a jump by a table of labels."""
    to.modifiers.choose("idx")
    to.modifiers.take("uni")
    to.expect(2)
    table = to.function.tables.get(to.operands[1])
    if table is None:
        raise Unsupported(f"the table {to.operands[1]} is not declared")
    labels = tuple(to.label(name) for name in table.labels)
    to.emit("brx", to.source(to.operands[0]), Targets(labels), jumps=labels, ends=True)


@lowers("ret", "exit")
def leave(to: Lowering) -> None:
    """``ret`` and ``exit``: the end of a thread, or of a function that is called."""
    to.modifiers.take("uni")
    to.expect(0)
    if to.opcode == "ret" and to.returns is not None:
        to.emit("bra", immediate=to.returns, jumps=(to.returns,), ends=True)
        return
    to.emit("exit", ends=True)


@lowers("trap")
def trap(to: Lowering) -> None:
    """``trap`` is a fault."""
    to.emit("trap", ends=True)


@lowers("brkpt", "pmevent")
def nothing(to: Lowering) -> None:
    """What only a debugger or a profiler sees."""
    to.modifiers.take("mask")
    to.emit("nothing")


@lowers("nanosleep")
def sleep(to: Lowering) -> None:
    """``nanosleep`` lets other warps continue."""
    to.modifiers.type("u32")
    to.expect(1)
    to.source(to.operands[0])
    to.emit("nanosleep")
