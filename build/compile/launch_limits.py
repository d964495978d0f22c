"""Limits of a launch, as far as a kernel's code decides them: what is beyond them, no GPU of the target launches."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from precast.build.gpu.gpu_table import Fact
from precast.loader.contract.format.artifact import Resources
from precast.loader.contract.format.program.host_program import HostProgram

_ENTRY = re.compile(r"\.entry\s+([\w$]+)[^{;]*")
_SIZES = re.compile(r"\.(reqntid|reqnctapercluster)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_MOST_CLUSTER = 16  # more than the portable 8 needs an attribute of the kernel
_WARP, _REGISTERS_AT_ONCE = 32, 256  # a warp's registers are given in these steps


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSizes:
    """The sizes of a kernel's launches that are the same for each; None for what depends on the call."""

    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    shared: int = 0


def sizes_in(ptx: str) -> dict[str, LaunchSizes]:
    """The sizes that PTX requires of the launches of its kernels.

    >>> sizes_in(".visible .entry k(.param .u64 x)\\n.reqntid 2048, 1, 1\\n{ ret; }")["k"].block
    (2048, 1, 1)
    """
    sizes_by_kernel = {}
    for entry in _ENTRY.finditer(ptx):
        sizes = {m[1]: (int(m[2]), int(m[3] or 1), int(m[4] or 1)) for m in _SIZES.finditer(entry[0])}
        sizes_by_kernel[entry[1]] = LaunchSizes(block=sizes.get("reqntid"), cluster=sizes.get("reqnctapercluster"))
    return sizes_by_kernel


def sizes_of(program: HostProgram) -> dict[str, LaunchSizes]:
    """The sizes that a host program states as numbers."""
    sizes_by_kernel = {}
    for step in program.steps:
        block, cluster = (_numbers(extent) for extent in (step.block, step.cluster))
        shared = step.shared if isinstance(step.shared, int) else 0
        sizes_by_kernel[step.kernel] = LaunchSizes(block=block, cluster=cluster, shared=shared)
    return sizes_by_kernel


def launch_problem(kernels: Iterable[Resources], sizes: Mapping[str, LaunchSizes], gpu: Mapping[str, Fact]) -> str:
    """Why no GPU with these facts launches one of some kernels: what it uses, and what there is. Else empty.

    >>> from precast.build.gpu.gpu_table import TABLE
    >>> wide = Resources(kernel="k", registers=32, shared=0, stack=0, local=0)
    >>> launch_problem([wide], {"k": LaunchSizes(block=(2048, 1, 1))}, TABLE[9, 0])
    'k has blocks of 2048 threads, and 1024 are the most'
    """
    for used in kernels:
        if problem := _problem(used, sizes.get(used.kernel, LaunchSizes()), gpu):
            return f"{used.kernel} {problem}"
    return ""


def _problem(used: Resources, sizes: LaunchSizes, gpu: Mapping[str, Fact]) -> str:
    def most(name: str) -> int:
        return int(gpu[name].value)

    threads, blocks = math.prod(sizes.block or (1,)), math.prod(sizes.cluster or (1,))
    if threads > most("max_threads_per_block"):
        return f"has blocks of {threads} threads, and {most('max_threads_per_block')} are the most"
    for axis, size in zip("xyz", sizes.block or (), strict=False):
        if size > (limit := most(f"max_block_dim_{axis}")):
            return f"has blocks of {size} threads along {axis}, and {limit} are the most"
    largest = _MOST_CLUSTER if "cluster_launch" in gpu else 1
    if blocks > largest:
        return f"has clusters of {blocks} blocks, and {largest} are the most"
    of_warp = -(-used.registers * _WARP // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    registers = of_warp * -(-threads // _WARP)
    if registers > most("max_registers_per_block"):
        return f"uses {registers} registers in a block, and {most('max_registers_per_block')} are available"
    static = max(0, used.shared - most("reserved_shared_memory_per_block"))  # what the system reserves may be in it
    if (shared := static + sizes.shared) > (limit := most("max_shared_memory_per_block_optin")):
        return f"uses {shared} bytes of shared memory in a block, and {limit} are available"
    return ""


def _numbers(extent: tuple[object, object, object]) -> tuple[int, int, int] | None:
    x, y, z = extent
    return (x, y, z) if isinstance(x, int) and isinstance(y, int) and isinstance(z, int) else None
