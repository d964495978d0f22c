"""The emulator: kernels' PTX, made ready once, and launches of them on memory of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from precast.emulator.errors import EmulationFault, SourceLine, Unsupported
from precast.emulator.interpreter_library import InterpreterLibrary, find_library
from precast.emulator.launch import DEFAULT, Launch, Memory, Options
from precast.emulator.limits import launch_problem, resident_blocks
from precast.emulator.program import Program, make_program
from precast.emulator.ptx.module import Function, Module
from precast.emulator.ptx.reader import read_module
from precast.emulator.result import Counts, Result
from precast.emulator.structures import (
    CountsStructure,
    FaultStructure,
    LaunchStructure,
    RangeStructure,
    ScheduleStructure,
)

_NONE = (1 << 32) - 1
_NOT_EMULATED = "not emulated"  # a kind of fault, as interpreter/core/fault.h has it


class Emulator:
    """Kernels of some texts of PTX.

    >>> emulator = Emulator([".version 8.8\\n.target sm_90a\\n.address_size 64\\n.visible .entry k() { ret; }"])
    >>> emulator.run([Launch(kernel="k", grid=(2, 1, 1), block=(64, 1, 1))]).counts.instructions
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
        self._globals: dict[int, tuple[dict[str, int], list[Memory]]] = {}
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
            addresses, _ = self._variables(module)
            program = make_program(module, function, self.library.operations, addresses)
            self.library.library.precast_load(ctypes.byref(program.structure))
            self._programs[kernel] = program
        return self._programs[kernel]

    def run(self, launches: Sequence[Launch], memory: Sequence[Memory] = (), options: Options = DEFAULT) -> Result:
        """Run launches one after the other, each on the memory of its parameters and on ``memory``.

        What is not emulated raises Unsupported, also where it is only found while a kernel runs.
        """
        programs = [self.program(launch.kernel) for launch in launches]
        for number, (launch, program) in enumerate(zip(launches, programs, strict=True)):
            target = self._kernels[launch.kernel][0].target
            if problem := launch_problem(launch, target, program.structure.static_shared):
                return Result(counts=Counts(), fault=EmulationFault("launch", problem, launch=number))
        kept: list[object] = []
        structures = (LaunchStructure * max(1, len(launches)))()
        for structure, launch, program in zip(structures, launches, programs, strict=False):
            self._fill(structure, launch, program, memory, kept)
            structure.multiprocessors = options.multiprocessors
            structure.resident = resident_blocks(
                launch,
                self._kernels[launch.kernel][0].target,
                program.structure.dynamic_offset,
                options.multiprocessors,
                options.clusters,
            )
        schedule = ScheduleStructure(
            options.seed, options.delay, options.check_races, options.limit, options.multiprocessors, options.fill
        )
        counted, fault = CountsStructure(), FaultStructure()
        failed = self.library.library.precast_run(
            structures, len(launches), ctypes.byref(schedule), ctypes.byref(counted), ctypes.byref(fault)
        )
        counts = Counts(**{field.name: int(getattr(counted, field.name)) for field in fields(Counts)})
        return Result(counts=counts, fault=self._fault(fault, launches) if failed else None)

    def _variables(self, module: Module) -> tuple[dict[str, int], list[Memory]]:
        """The addresses of a module's variables in global memory, which are made once."""
        if id(module) not in self._globals:
            variables = [v for v in module.variables.values() if v.space in ("global", "const")]
            memory = [
                Memory.copy_of(
                    v.initial.ljust(v.size, b"\0"), writable=v.space == "global", name=f"the variable {v.name}"
                )
                for v in variables
            ]
            self._globals[id(module)] = {v.name: m.begin for v, m in zip(variables, memory, strict=True)}, memory
        return self._globals[id(module)]

    def _fill(
        self,
        structure: LaunchStructure,
        launch: Launch,
        program: Program,
        memory: Sequence[Memory],
        kept: list[object],
    ) -> None:
        parameters = Memory.copy_of(_packed(launch, program))
        mine = [
            replace(value, name=value.name or f"parameter {number}")
            for number, value in enumerate(launch.parameters)
            if isinstance(value, Memory)
        ]
        ranges = [*mine, *memory, *self._variables(self._kernels[launch.kernel][0])[1]]
        packed_ranges = (RangeStructure * max(1, len(ranges)))(
            *(
                RangeStructure(r.begin, r.end, r.first, r.step, r.copies, r.writable, i, r.name.encode())
                for i, r in enumerate(ranges)
            )
        )
        kept += [parameters, ranges, packed_ranges, program]
        structure.program = ctypes.pointer(program.structure)
        structure.parameters = parameters.begin
        structure.ranges = packed_ranges
        structure.range_count = len(ranges)
        structure.grid[:] = launch.grid
        structure.block[:] = launch.block
        structure.cluster[:] = launch.cluster
        structure.preferred[:] = launch.preferred
        structure.dynamic_shared = launch.shared
        structure.overlap = launch.overlap
        structure.device = launch.device

    def _fault(self, fault: FaultStructure, launches: Sequence[Launch]) -> EmulationFault:
        kind, text = fault.kind.decode(), fault.text.decode(errors="replace")
        if kind == _NOT_EMULATED:
            raise Unsupported(text, line=fault.line)
        kernel = launches[fault.launch].kernel
        module, _ = self._kernels[kernel]
        located = self.program(kernel).sources.get(fault.line)
        source = SourceLine(module.files.get(located[0], ""), located[1]) if located else None
        return EmulationFault(
            kind,
            text,
            launch=fault.launch,
            block=(fault.block[0], fault.block[1], fault.block[2]),
            warp=-1 if fault.warp == _NONE else fault.warp,
            lane=-1 if fault.lane == _NONE else fault.lane,
            line=fault.line,
            other_line=fault.other_line,
            source=source,
        )


def emulate(text: str, launch: Launch, options: Options = DEFAULT) -> Result:
    """Run one launch of a kernel of a text of PTX.

    >>> text = '''.version 8.8
    ... .target sm_90a
    ... .visible .entry store(.param .u64 out, .param .u32 value) {
    ...     .reg .b64 %rd<2>; .reg .b32 %r<2>;
    ...     ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [value]; st.global.u32 [%rd1], %r1; ret;
    ... }'''
    >>> out = Memory.copy_of(bytes(4))
    >>> launch = Launch(kernel="store", grid=(1, 1, 1), block=(1, 1, 1), parameters=(out, 7))
    >>> emulate(text, launch).fault is None, bytes(out.data)
    (True, b'\\x07\\x00\\x00\\x00')

    A fault has its kind, and where it is:

    >>> wrong = replace(launch, parameters=(Memory.copy_of(bytes(2)), 7))
    >>> fault = emulate(text, wrong).fault
    >>> fault.kind, fault.block, fault.warp, fault.lane, fault.line
    ('out of bounds', (0, 0, 0), 0, 0, 5)
    """
    return Emulator([text]).run([launch], options=options)


def _packed(launch: Launch, program: Program) -> bytes:
    """The parameters of a launch as they are in the kernel's parameter space."""
    if len(launch.parameters) != len(program.parameters):
        raise Unsupported(f"{launch.kernel} takes {len(program.parameters)} parameters, not {len(launch.parameters)}")
    packed = bytearray(int(program.structure.parameter_bytes))
    for value, (offset, size) in zip(launch.parameters, program.parameters, strict=True):
        number = value.begin if isinstance(value, Memory) else value
        data = number if isinstance(number, bytes) else (number & (1 << 8 * size) - 1).to_bytes(size, "little")
        if len(data) != size:
            raise Unsupported(f"a parameter of {launch.kernel} has {size} bytes, not {len(data)}")
        packed[offset : offset + size] = data
    return bytes(packed)
