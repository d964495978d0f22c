"""An emulated kernel: an artifact of a cache that is called with tensors of the CPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from precast.emulator import LIMIT, Counts, Emulator, Launch, Memory, Options, Unsupported
from precast.kernels.authoring.composition import MULTICAST, Multicast
from precast.loader import Kernel
from precast.loader.contract.format.artifact import Artifact
from precast.loader.machine.machine import Machine
from precast.measure.checks.guarded import end_of
from precast.measure.checks.scenarios import Schedule
from precast.measure.child.emulation.arguments import CallError, tensors_in
from precast.measure.child.emulation.host_code import STREAM, HostCode
from precast.measure.child.emulation.ranks_code import of_rank
from precast.measure.launching.cases import bound


@dataclass(slots=True)
class Spent:
    """What the calls of a kernel have executed so far."""

    counts: Counts = field(default_factory=Counts)
    limited: bool = False  # a call took more warp instructions than it may
    refused: Unsupported | None = None

    def add(self, counts: Counts) -> None:
        """Count one more call."""
        names = Counts.__dataclass_fields__
        self.counts = Counts(**{n: getattr(self.counts, n) + getattr(counts, n) for n in names})


class EmulatedKernel(Kernel):
    """A kernel whose call runs its host code, and then its PTX on the memory of the tensors.

    A pointer may be given as a tensor: the memory behind a bare address is not the kernel's.

    Parameters
    ----------
    op, artifact
        What is called.
    host, emulator
        What makes the launches of a call, and what runs them.
    options
        The schedule, and what is checked.
    written
        The arguments that the kernel may write; None for all.
    """

    own_stream = STREAM

    def __init__(
        self,
        op: str,
        artifact: Artifact,
        host: HostCode,
        emulator: Emulator,
        options: Options,
        written: Collection[str] | None = None,
        spent: Spent | None = None,
    ) -> None:
        machine = Machine(arch="", capability=artifact.target.capability)
        super().__init__(op, artifact, self._run, lambda: machine)
        self._parts = (op, artifact, host, emulator)
        self._host, self._emulator = host, emulator
        self._registers = {used.kernel: used.registers for used in artifact.resources}
        self.options = options
        self._written = written
        self.spent = spent or Spent()

    def under(self, schedule: Schedule) -> EmulatedKernel:
        """The same kernel with its warps in another order, and with other values where nothing is written yet."""
        options = replace(self.options, seed=schedule.seed, delay=schedule.delay, check_races=True)
        if schedule.fill is not None:
            options = replace(options, fill=schedule.fill)
        return EmulatedKernel(*self._parts, options, self._written, self.spent)

    @property
    def obstacle(self) -> None:
        """Nothing: no device is needed."""
        return None

    def check_device(self) -> None:
        """There is no device to check."""
        self._launch = self._function

    def _run(self, *values: Any) -> None:
        """Emulate a call. What is not the kernel's fault is noted in ``spent``, too."""
        self._emulate(self._host.launches(values), self._memory(values))

    def _emulate(self, launches: Sequence[Launch], memory: Sequence[Memory]) -> None:
        for launch in launches:
            if 0 in launch.grid:
                sizes = " x ".join(map(str, launch.grid))
                raise CallError(f"it launches {launch.kernel} with a grid of {sizes} blocks, which CUDA refuses")
        launches = [replace(launch, registers=self._registers.get(launch.kernel, 0)) for launch in launches]
        try:
            result = self._emulator.run(launches, memory, self.options)
        except Unsupported as error:
            self.spent.refused = error
            raise
        if result.fault is not None:
            self.spent.limited = result.fault.kind == LIMIT
            raise result.fault
        self.spent.add(result.counts)

    def together(
        self, calls: Sequence[Mapping[str, Any]], reached: Mapping[str, Any], written: Collection[str]
    ) -> None:
        """Emulate a call for each rank, all at once, each on a GPU of its own.

        ``reached`` are the tensors of all ranks, which each of them may touch; those in ``written`` may be written.
        """
        ranks = _Gathered(*self._parts, self.options, self._written)
        for call in calls:
            bound(ranks, call)()
        memory = [
            Memory(tensor.data_ptr(), end_of(tensor), name in written, name)
            for name, value in reached.items()
            for tensor in tensors_in(value)
            if tensor.numel()
        ]
        memory += [each for values in ranks.calls for each in self._memory(values)]
        launches = [
            replace(launch, device=rank)
            for rank, values in enumerate(ranks.calls)
            for launch in of_rank(self._host, rank).launches(values)
        ]
        self._emulate(launches, memory)

    def _memory(self, values: Sequence[Any]) -> list[Memory]:
        """The memory of the tensors of a call, from the first to the last element of each."""
        ranges = []
        for argument, value in zip(self.signature.passed, values, strict=True):
            writable = self._written is None or argument.name in self._written
            ranges += [
                Memory(tensor.data_ptr(), end_of(tensor), writable, argument.name)
                for tensor in tensors_in(value)
                if tensor.numel()
            ]
            if isinstance(value, Multicast):
                ranges.append(_multicast(argument.name, value))
        return ranges


def _multicast(name: str, memory: Multicast) -> Memory:
    """The addresses of multicast memory, with its copies."""
    first, copy = int(memory.copies.data_ptr()), memory.copies[0]
    end = MULTICAST + end_of(copy)
    return Memory(MULTICAST + first, end, writable=True, name=name, copies=memory.count, first=first, step=memory.step)


class _Gathered(EmulatedKernel):
    """Keeps the arguments of its calls, as the kernel's host code takes them."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.calls: list[tuple[Any, ...]] = []

    def _run(self, *values: Any) -> None:
        self.calls.append(values)
