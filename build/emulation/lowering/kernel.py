"""The lowering of a kernel's statements, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from precast.build.emulation.errors import Unsupported
from precast.build.emulation.lowering.lowering import Lowering
from precast.build.emulation.lowering.registry import lowering_functions
from precast.build.emulation.lowering.symbols import Symbols
from precast.build.emulation.ptx.module import Function, Module, Statement


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


def lower_body(lowering: Lowering, function: Function, refused: Callable[[Unsupported], None] | None = None) -> None:
    """Lower the statements of a function where the lowering is."""
    functions = lowering_functions()
    outer, lowering.function = getattr(lowering, "function", function), function
    for item in function.body:
        if not isinstance(item, Statement):
            lowering.mark(item)
            continue
        first = len(lowering.instructions)
        try:
            lowering.begin(item)
            function = functions.get(".".join(item.opcode.split(".")[:2])) or functions.get(lowering.opcode)
            if function is None:
                raise Unsupported(f"{lowering.opcode} is not emulated")
            function(lowering)
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
