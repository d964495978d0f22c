"""An interpreter of PTX on the CPU: what a kernel computes, and what it does wrong, where there is no GPU.

``emulate`` runs one launch; an ``Emulator`` runs several, of the kernels of some texts.
"""

from precast.emulator.emulator import Emulator, emulate
from precast.emulator.errors import LIMIT, EmulationFault, EmulatorError, InterpreterError, SourceLine, Unsupported
from precast.emulator.interpreter_library import find_library
from precast.emulator.launch import Launch, Memory, Options
from precast.emulator.result import Counts, Result

__all__ = [
    "LIMIT", "Counts", "EmulationFault", "Emulator", "EmulatorError", "InterpreterError", "Launch", "Memory", "Options",
    "Result", "SourceLine", "Unsupported", "emulate", "find_library",
]  # fmt: skip
