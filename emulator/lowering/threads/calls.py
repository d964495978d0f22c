"""``call``: the function's statements are written out in the place of the call."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering, Unsupported, lower_body, lowers
from precast.emulator.lowering.operands import Target
from precast.emulator.ptx.module import Function
from precast.emulator.ptx.reader import split_operands


@lowers("call")
def call(to: Lowering) -> None:
    """A direct call. Each has registers, labels and local memory of its own, so a function may not call itself."""
    to.modifiers.take("uni")
    groups = list(to.operands)
    results = _names(groups.pop(0)) if groups[0].startswith("(") else ()
    name = groups.pop(0)
    arguments = _names(groups.pop(0)) if groups else ()
    function = to.module.functions.get(name)
    if groups or function is None:
        raise Unsupported("indirect calls are not emulated")
    if not function.body:
        _outside(to, name)
        return
    if name in to.stack:
        raise Unsupported(f"{name} calls itself")
    _write_out(to, function, arguments, results)


def _names(text: str) -> tuple[str, ...]:
    return split_operands(text.strip()[1:-1].strip())


def _outside(to: Lowering, name: str) -> None:
    """What CUDA's own library has: a failed assertion is a fault, and what is printed is not seen."""
    if name == "__assertfail":
        to.emit("trap", ends=True)
    elif name == "vprintf":
        to.emit("nothing")
    else:
        raise Unsupported(f"the function {name} is not in the module")


def _write_out(to: Lowering, function: Function, arguments: tuple[str, ...], results: tuple[str, ...]) -> None:
    if len(arguments) != len(function.parameters) or len(results) != len(function.results):
        raise Unsupported(f"{function.name} takes {len(function.parameters)} arguments")
    offsets = {
        variable.name: to.local_parameter(name)
        for variable, name in (
            *zip(function.parameters, arguments, strict=True),
            *zip(function.results, results, strict=True),
        )
    }
    statement, outer = to.statement, (to.call, to.returns, to.arguments)
    number = to.next_call()
    end = Target("return", -number)
    if statement.guard:
        to.emit_unless_guard(end)
    to.call, to.returns, to.arguments = number, end, offsets
    to.stack.append(function.name)
    try:
        lower_body(to, function)
    finally:
        to.stack.pop()
        to.call, to.returns, to.arguments = outer
        to.begin(statement)
        to.modifiers.left.clear()
    to.places[end] = len(to.instructions)
    to.clear_guard()
