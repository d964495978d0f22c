"""The lowering of a kernel's statements, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from precast.emulator.errors import Unsupported
from precast.emulator.lowering.lowering import Lowering
from precast.emulator.lowering.registry import Lower, lowering_functions
from precast.emulator.lowering.symbols import Symbols
from precast.emulator.ptx.contraction import contracted
from precast.emulator.ptx.module import Function, Module, Statement


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
