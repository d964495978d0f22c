"""Limits of a launch: a GPU refuses what is beyond them, so no emulation of it is evidence."""

from __future__ import annotations

import math
import re

from precast.emulator.launch import Launch

# From CUDA's programming guide, "Technical Specifications per Compute Capability"; 10.7 from the CuTe DSL 4.8.1.
_MOST_GRID = (2**31 - 1, 2**16 - 1, 2**16 - 1)
_MOST_BLOCK = (1024, 1024, 64)
_MOST_THREADS = 1024
_MOST_CLUSTER = 16  # of which 8 are portable; more than 8 needs an attribute of the kernel
_SHARED = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 107: 327, 110: 227, 120: 99, 121: 99}
"""Kilobytes of shared memory that a block may have, by the target's number."""


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
    number = re.match(r"sm_(\d+)", target)
    most_shared = 1024 * _SHARED.get(int(number[1]), 1 << 20) if number else 1 << 30
    if (shared := static_shared + launch.shared) > most_shared:
        return f"{shared} bytes of shared memory are requested, and {most_shared} are the most of {target}"
    return None


def _by(sizes: tuple[int, int, int]) -> str:
    return " x ".join(map(str, sizes))
