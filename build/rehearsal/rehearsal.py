"""The rehearsal of one object: its author's launch plan is checked, or its host program derived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from precast.build.errors import PlanError
from precast.build.link import elf
from precast.build.link.toolchain import Toolchain
from precast.build.rehearsal.calls import Call, Caller
from precast.build.rehearsal.derive import derive
from precast.kernels.authoring.launch_plan import LaunchPlan
from precast.loader.contract.format.program.host_program import HostProgram, Parameter
from precast.loader.contract.format.signature import Signature
from precast.loader.errors import FormatError

CALLS = 256


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """An object, its entry, what that takes, and the device code in it."""

    toolchain: Toolchain
    obj: bytes
    symbol: str
    signature: Signature
    cubins: Sequence[bytes]

    def check(self, plan: LaunchPlan) -> HostProgram:
        """The host program of an author's launch plan. Raises a PlanError if the object's host code does otherwise."""
        try:
            if len(self.cubins) != 1 or len(elf.kernels(self.cubins[0])) != 1:
                raise PlanError(f"{self.symbol} has more than one kernel, and a plan launches one: remove launch=")
            kernel = elf.kernels(self.cubins[0])[0]
            program = plan.program(self.signature, kernel)
        except FormatError as error:
            raise PlanError(f"{self.symbol}: its launch plan is wrong: {error}; correct launch= in @kernel") from None
        _check_parameters(self.symbol, program.steps[0].parameters, elf.kernel_parameters(self.cubins[0], kernel))
        caller = Caller(self.toolchain, self.obj, self.symbol, self.signature, self.cubins[0])
        calls = caller.drawn("plan", CALLS, tame=False)
        program = _overlapping_as(program, calls)
        wrong = caller.difference(program, calls)
        if wrong:
            raise PlanError(f"{self.symbol} {wrong}. Correct launch= in @kernel, or remove it: a plan can be derived")
        return program

    def derived(self) -> tuple[HostProgram | None, str]:
        """The host program of the object; or None, and why there is none."""
        try:
            return derive(self.toolchain, self.obj, self.symbol, self.signature, self.cubins), ""
        except PlanError as error:
            return None, str(error)


def _overlapping_as(program: HostProgram, calls: Sequence[Call]) -> HostProgram:
    """The program with launches that may overlap the one before, where the object's may: that depends on the target,
    which a plan does not know."""
    overlap = any(launch.overlap for call in calls for launch in call.recorded.launches)
    return replace(program, steps=tuple(replace(step, overlap=overlap) for step in program.steps))


def _check_parameters(symbol: str, planned: Sequence[Parameter], listed: Sequence[tuple[int, int]]) -> None:
    """The device code lists its parameters: as many as the plan has, and each as long, except for padding."""
    lengths, sizes = [parameter.size for parameter in planned], [size for _, size in listed]
    if len(sizes) != len(lengths) or any(not 0 <= size - n < 8 for size, n in zip(sizes, lengths, strict=True)):
        raise PlanError(
            f"{symbol}: the plan packs parameters of {lengths} bytes, the device code takes {sizes}:"
            " correct the parameters of launch= in @kernel"
        )
