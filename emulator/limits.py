"""Limits of a launch: a GPU refuses what is beyond them, and runs no more of its blocks at once than fit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from precast.emulator.launch import Launch

# From CUDA's programming guide, "Technical Specifications per Compute Capability"; 10.7 from the CuTe DSL 4.8.1.
_MOST_GRID = (2**31 - 1, 2**16 - 1, 2**16 - 1)
_MOST_BLOCK = (1024, 1024, 64)
_MOST_THREADS = 1024
_MOST_CLUSTER = 16  # of which 8 are portable; more than 8 needs an attribute of the kernel
_MOST_REGISTERS = 1 << 16  # of a block, and of a multiprocessor
_SHARED = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 107: 327, 110: 227, 120: 99, 121: 99}
"""Kilobytes of shared memory that a block may have, by the target's number; a multiprocessor has one more."""
_SYSTEM = 1024  # bytes of shared memory that each block takes beside its own
_RESIDENT = {
    86: (1536, 16), 87: (1536, 16), 89: (1536, 24), 107: (1024, 16), 110: (1536, 24), 120: (1536, 24), 121: (1536, 24),
}  # fmt: skip
"""Threads and blocks of a multiprocessor, by the target's number; else there are as many as of ``_MOST_RESIDENT``."""
_MOST_RESIDENT = (2048, 32)
_WARP, _REGISTERS_AT_ONCE, _WARPS_AT_ONCE = 32, 256, 4  # registers are given to warps in these steps


def launch_problem(launch: Launch, target: str, static_shared: int) -> str | None:
    """Why no GPU of a target takes a launch, or None.

    Parameters
    ----------
    launch
        The launch.
    target
        The target of the PTX, such as ``sm_90a``. Shared memory is not checked for a target outside of the table.
    static_shared
        The bytes of shared memory that the kernel itself declares.

    >>> launch_problem(Launch(kernel="k", grid=(1, 70_000, 1), block=(32, 1, 1)), "sm_90a", 0)
    'a grid of 1 x 70000 x 1 blocks is launched, and 2147483647 x 65535 x 65535 is the most'
    """
    for what, size, most in (("grid", launch.grid, _MOST_GRID), ("block", launch.block, _MOST_BLOCK)):
        if any(not 1 <= number <= limit for number, limit in zip(size, most, strict=True)):
            unit = "blocks" if what == "grid" else "threads"
            return f"a {what} of {_by(size)} {unit} is launched, and {_by(most)} is the most"
    if (threads := math.prod(launch.block)) > _MOST_THREADS:
        return f"a block of {threads} threads is launched, and {_MOST_THREADS} is the most"
    if not 1 <= math.prod(launch.cluster) <= _MOST_CLUSTER:
        return f"a cluster of {_by(launch.cluster)} blocks is launched, and {_MOST_CLUSTER} blocks are the most"
    if any(grid % cluster for grid, cluster in zip(launch.grid, launch.cluster, strict=True)):
        return f"a grid of {_by(launch.grid)} blocks cannot be divided into clusters of {_by(launch.cluster)}"
    if not _blocks_by_registers(launch):
        needed = f"{threads} threads with {launch.registers} registers each are launched in a block"
        return f"{needed}, and {_MOST_REGISTERS} registers are the most of a block"
    most_shared = 1024 * _SHARED.get(_number(target), 1 << 20)
    if (shared := static_shared + launch.shared) > most_shared:
        return f"{shared} bytes of shared memory are requested, and {most_shared} are the most of {target}"
    return None


def resident_blocks(
    launch: Launch, target: str, static_shared: int, multiprocessors: int, clusters: Mapping[int, int]
) -> int:
    """How many blocks of a launch a GPU runs at once at most: as many as its memory, threads and registers allow.

    ``clusters`` has how many clusters of a size it runs at once, by the size, with one block to a multiprocessor.

    >>> launch = Launch(kernel="k", grid=(400, 1, 1), block=(1024, 1, 1))
    >>> resident_blocks(launch, "sm_90a", 0, 132, {}), resident_blocks(launch, "sm_120a", 0, 132, {})
    (264, 132)
    """
    number = _number(target)
    threads, most = _RESIDENT.get(number, _MOST_RESIDENT)
    shared = 1024 * _SHARED.get(number, 227) + _SYSTEM
    each = min(
        threads // (_warps(launch) * _WARP),
        most,
        shared // (_SYSTEM + static_shared + launch.shared),
        _blocks_by_registers(launch),
    )
    size = max(math.prod(launch.cluster), math.prod(launch.preferred))
    at_once = min(multiprocessors // size, clusters.get(size, multiprocessors)) if size > 1 else multiprocessors
    return max(size, at_once * size * max(1, each))


def _warps(launch: Launch) -> int:
    return -(-math.prod(launch.block) // _WARP)


def _blocks_by_registers(launch: Launch) -> int:
    """How many blocks of a launch have room in the registers of a multiprocessor."""
    of_warp = max(1, -(-launch.registers * _WARP // _REGISTERS_AT_ONCE)) * _REGISTERS_AT_ONCE
    return _MOST_REGISTERS // of_warp // _WARPS_AT_ONCE * _WARPS_AT_ONCE // _warps(launch)


def _number(target: str) -> int:
    """The number of a target such as ``sm_90a``; 0 of another text."""
    number = re.match(r"sm_(\d+)", target)
    return int(number[1]) if number else 0


def _by(sizes: tuple[int, int, int]) -> str:
    return " x ".join(map(str, sizes))
