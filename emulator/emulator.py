"""The emulator: kernels' PTX, made ready once, and launches of them on memory of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from precast.emulator.errors import EmulationFault, Unsupported
from precast.emulator.interpreter_library import InterpreterLibrary, find_library
from precast.emulator.program import Program, make_program
from precast.emulator.ptx.module import Function, Module
from precast.emulator.ptx.reader import read_module
from precast.emulator.structures import (
    CountsStructure,
    FaultStructure,
    LaunchStructure,
    RangeStructure,
    ScheduleStructure,
)
from precast.build.errors import Location

_PARAMETER_ALIGN = 128  # tensor maps are aligned to 64 bytes
_NONE = (1 << 32) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedLaunch:
    """A launch: a kernel's name, its sizes, the bytes of each parameter.

    With a ``preferred`` cluster, the GPU takes clusters of that size or of ``cluster`` as it likes, side by side.
    ``overlap`` is programmatic dependent launch: the grid may begin before the one before it has ended. Launches of one
    ``device`` are in order; those of several are there at once, as the ranks of a collective.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    preferred: tuple[int, int, int] = (0, 0, 0)
    shared: int = 0
    overlap: bool = False
    device: int = 0
    parameters: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """Memory that launches may touch, from ``begin`` to before ``end``.

    Multicast memory has ``copies``, the first of them at ``first``, each ``step`` bytes behind the one before. Only
    ``multimem`` reaches it, and touches the copies, which are memory of their own.
    """

    begin: int
    end: int
    writable: bool
    name: str
    copies: int = 0
    first: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """How warps and asynchronous operations are ordered.

    Parameters
    ----------
    seed
        0: in program order, and asynchronous effects at once; else at random.
    delay
        With a seed: effects come up to so many turns later.
    check_races
        Whether accesses are checked that no synchronisation orders.
    limit
        The most warp instructions of a call; 0: any number.
    multiprocessors
        How many the emulated GPU has.
    """

    seed: int = 0
    delay: int = 0
    check_races: bool = False
    limit: int = 0
    multiprocessors: int = 132


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was executed: warp instructions, turns of warps, blocks, bytes of copies, operations of products."""

    instructions: int
    turns: int
    blocks: int
    copied_bytes: int
    product_flops: int
    spins: int


class Emulator:
    """Kernels of some texts of PTX.

    >>> emulator = Emulator([".version 8.8\\n.target sm_90a\\n.address_size 64\\n.visible .entry k() { ret; }"])
    >>> emulator.run([EmulatedLaunch(kernel="k", grid=(2, 1, 1), block=(64, 1, 1))]).instructions
    4

    Parameters
    ----------
    texts
        Modules of PTX. One that holds something that is not emulated raises Unsupported when its kernel is first run.
    library
        The interpreter.
    """

    def __init__(self, texts: Iterable[str], library: InterpreterLibrary | None = None) -> None:
        self.library = library or find_library()
        self._kernels: dict[str, tuple[Module, Function]] = {}
        self._programs: dict[str, Program] = {}
        self._globals: dict[int, tuple[dict[str, int], list[MemoryRange], list[object]]] = {}
        for text in texts:
            module = read_module(text)
            for name, function in module.functions.items():
                if function.entry:
                    self._kernels[name] = module, function

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of all kernels."""
        return tuple(self._kernels)

    def program(self, kernel: str) -> Program:
        """A kernel made ready to run, or Unsupported."""
        if kernel not in self._programs:
            if kernel not in self._kernels:
                raise Unsupported(f"the PTX has no kernel {kernel}")
            module, function = self._kernels[kernel]
            addresses, _, _ = self._variables(module)
            program = make_program(module, function, self.library.operations, addresses)
            self.library.library.precast_load(ctypes.byref(program.structure))
            self._programs[kernel] = program
        return self._programs[kernel]

    def run(
        self,
        launches: Sequence[EmulatedLaunch],
        memory: Sequence[MemoryRange] = (),
        options: ScheduleOptions = ScheduleOptions(),
    ) -> Counts:
        """Run launches one after the other; a fault raises EmulationFault."""
        programs = [self.program(launch.kernel) for launch in launches]
        kept: list[object] = []
        structures = (LaunchStructure * max(1, len(launches)))()
        for structure, launch, program in zip(structures, launches, programs, strict=False):
            self._fill(structure, launch, program, memory, kept)
            structure.multiprocessors = options.multiprocessors
        schedule = ScheduleStructure(
            options.seed, options.delay, options.check_races, options.limit, options.multiprocessors
        )
        counts, fault = CountsStructure(), FaultStructure()
        failed = self.library.library.precast_run(
            structures, len(launches), ctypes.byref(schedule), ctypes.byref(counts), ctypes.byref(fault)
        )
        if failed:
            raise self._fault(fault, launches)
        return Counts(**{field.name: int(getattr(counts, field.name)) for field in fields(Counts)})

    def _variables(self, module: Module) -> tuple[dict[str, int], list[MemoryRange], list[object]]:
        """The addresses of a module's variables in global memory, which are made once."""
        if id(module) not in self._globals:
            addresses: dict[str, int] = {}
            ranges: list[MemoryRange] = []
            kept: list[object] = []
            for variable in module.variables.values():
                if variable.space not in ("global", "const"):
                    continue
                begin, buffer = _aligned(variable.initial.ljust(variable.size, b"\0"))
                kept.append(buffer)
                addresses[variable.name] = begin
                writable = variable.space == "global"
                ranges.append(MemoryRange(begin, begin + variable.size, writable, f"the variable {variable.name}"))
            self._globals[id(module)] = addresses, ranges, kept
        return self._globals[id(module)]

    def _fill(
        self,
        structure: LaunchStructure,
        launch: EmulatedLaunch,
        program: Program,
        memory: Sequence[MemoryRange],
        kept: list[object],
    ) -> None:
        if len(launch.parameters) != len(program.parameters):
            raise Unsupported(
                f"{launch.kernel} takes {len(program.parameters)} parameters, not {len(launch.parameters)}"
            )
        packed = bytearray(int(program.structure.parameter_bytes))
        for data, (offset, size) in zip(launch.parameters, program.parameters, strict=True):
            if len(data) != size:
                raise Unsupported(f"a parameter of {launch.kernel} has {size} bytes, not {len(data)}")
            packed[offset : offset + size] = data
        begin, buffer = _aligned(bytes(packed))
        ranges = [*memory, *self._variables(self._kernels[launch.kernel][0])[1]]
        packed_ranges = (RangeStructure * max(1, len(ranges)))(
            *(
                RangeStructure(r.begin, r.end, r.first, r.step, r.copies, r.writable, i, r.name.encode())
                for i, r in enumerate(ranges)
            )
        )
        kept += [buffer, packed_ranges, program]
        structure.program = ctypes.pointer(program.structure)
        structure.parameters = begin
        structure.ranges = packed_ranges
        structure.range_count = len(ranges)
        structure.grid[:] = launch.grid
        structure.block[:] = launch.block
        structure.cluster[:] = launch.cluster
        structure.preferred[:] = launch.preferred
        structure.dynamic_shared = launch.shared
        structure.overlap = launch.overlap
        structure.device = launch.device

    def _fault(self, fault: FaultStructure, launches: Sequence[EmulatedLaunch]) -> EmulationFault:
        kernel = launches[fault.launch].kernel
        module, _ = self._kernels[kernel]
        located = self.program(kernel).sources.get(fault.line)
        source = Location(module.files.get(located[0], ""), located[1], 1) if located else None
        return EmulationFault(
            fault.kind.decode(),
            fault.text.decode(errors="replace"),
            launch=fault.launch,
            block=(fault.block[0], fault.block[1], fault.block[2]),
            warp=-1 if fault.warp == _NONE else fault.warp,
            lane=-1 if fault.lane == _NONE else fault.lane,
            line=fault.line,
            other_line=fault.other_line,
            source=source,
        )


def _aligned(data: bytes) -> tuple[int, object]:
    """Memory of this process that holds some bytes: its address and what keeps it."""
    buffer = ctypes.create_string_buffer(len(data) + _PARAMETER_ALIGN)
    begin = -(-ctypes.addressof(buffer) // _PARAMETER_ALIGN) * _PARAMETER_ALIGN
    ctypes.memmove(begin, data, len(data))
    return begin, buffer
