"""What a host program says of a call, compared with what the object's own host code did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.build.rehearsal.draw import is_tame
from precast.build.rehearsal.recorder import Recorded, RecordedLaunch
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.errors import LaunchError


def difference(
    program: HostProgram, leaves: Mapping[str, int], recorded: Recorded, arguments: Sequence[Any]
) -> str | None:
    """How the program and the object differ in a call; None where they do not, or where no device could launch it."""
    try:
        planned = program.launches(leaves)
    except LaunchError as error:
        excused = any(map(_impossible, recorded.launches)) or not is_tame(arguments)
        return None if excused else f"for {arguments}: the plan refuses it: {error}"
    ours, its = [kernel for kernel, _, _ in planned], [launch.kernel for launch in recorded.launches]
    if ours != its:
        return f"for {arguments}: launches: the plan has {ours}, the object {its}"
    for (kernel, launch, parameters), actual in zip(planned, recorded.launches, strict=True):
        facts = {
            "grid": (launch.grid, actual.grid),
            "block": (launch.block, actual.block),
            "cluster": (launch.cluster, actual.cluster),
            "shared": (launch.shared, actual.shared),
            "overlap": (launch.overlap, actual.overlap),
            "parameters": tuple(
                [
                    _masked(data[: len(ours)], written)
                    for data, ours, written in zip(of, parameters, actual.written, strict=True)
                ]
                for of in (parameters, actual.parameters)
            ),
        }
        wrong = [f"{name}: the plan has {ours}, the object {its}" for name, (ours, its) in facts.items() if ours != its]
        if wrong:
            return f"for {arguments}: {kernel}: {'; '.join(wrong)}"
    return None


def _impossible(launch: RecordedLaunch) -> bool:
    """Whether no device could make a launch."""
    x, y, z = launch.grid
    return not (1 <= x < 1 << 31 and 1 <= y < 1 << 16 and 1 <= z < 1 << 16)


def _masked(data: bytes, written: bytes) -> str:
    """The bytes that the host code has set, as hexadecimal digits, and dots for the others."""
    return "".join(f"{byte:02x}" if kept else ".." for byte, kept in zip(data, written, strict=False))
