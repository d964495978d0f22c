"""Small kernels in PTX, run on arrays of this process."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Any

from precast.build.emulation.emulator import Counts, EmulatedLaunch, Emulator, MemoryRange, ScheduleOptions
from precast.build.emulation.interpreter_library import InterpreterLibrary

Sizes = int | tuple[int, ...]
__all__ = ["Counts", "kernel", "run_ptx"]


def kernel(body: str, parameters: str = "", *, target: str = "sm_100a", outside: str = "") -> str:
    """A module with one kernel.

    The body may use ``%r0`` to ``%r63``, ``%rd0`` to ``%rd63``, ``%rs``, ``%f``, ``%fd`` and ``%p`` likewise, and
    ``%q0`` to ``%q7`` of 128 bits. ``parameters`` are types and names such as ``u64 out, u32 n``; each is loaded into
    a register of its name.
    """
    declared, loads = [], []
    for part in filter(None, (part.strip() for part in parameters.split(","))):
        kind, name = part.split()
        declared.append(f".param .{kind} param_{name}")
        loads.append(f".reg .{kind} {name}; ld.param.{kind} {name}, [param_{name}];")
    registers = (
        ".reg .pred %p<64>; .reg .b16 %rs<64>; .reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<64>; .reg .f64 %fd<64>; "
        ".reg .b128 %q<8>;"
    )
    return (
        f".version 8.8\n.target {target}\n.address_size 64\n{outside}\n"
        f".visible .entry k({', '.join(declared)}) {{\n{registers}\n{' '.join(loads)}\n{body}\nret;\n}}\n"
    )


def run_ptx(
    text: str,
    arguments: Sequence[Any] = (),
    *,
    grid: Sizes = 1,
    block: Sizes = 32,
    cluster: Sizes = 1,
    shared: int = 0,
    seed: int = 0,
    delay: int = 0,
    check_races: bool = False,
    limit: int = 100_000_000,
    multiprocessors: int = 132,
    read_only: Collection[int] = (),
    name: str = "",
    repeat: int = 1,
    overlap: bool = False,
    library: InterpreterLibrary | None = None,
) -> Counts:
    """Run a kernel.

    Parameters
    ----------
    text
        A module; ``name`` picks one of its kernels.
    arguments
        For each parameter an array of numpy or torch, which is passed by its address, a number, or bytes.
    read_only
        The places of arrays that the kernel may only read.
    repeat, overlap
        How many launches there are, and whether each may begin before the one before it has ended.
    """
    emulator = Emulator([text], library)
    chosen = name or emulator.kernels[0]
    sizes = [size for _, size in emulator.program(chosen).parameters]
    memory, parameters = [], []
    for place, argument in enumerate(arguments):
        address = _address(argument)
        if address is not None:
            memory.append(MemoryRange(address, address + _bytes(argument), place not in read_only, f"argument {place}"))
        parameters.append(_packed(argument if address is None else address, sizes[place]))
    launch = EmulatedLaunch(
        kernel=chosen,
        grid=_three(grid),
        block=_three(block),
        cluster=_three(cluster),
        shared=shared,
        overlap=overlap,
        parameters=tuple(parameters),
    )
    options = ScheduleOptions(
        seed=seed, delay=delay, check_races=check_races, limit=limit, multiprocessors=multiprocessors
    )
    return emulator.run([launch] * repeat, memory, options)


def _address(argument: Any) -> int | None:
    if hasattr(argument, "data_ptr"):
        return int(argument.data_ptr())
    if hasattr(argument, "__array_interface__"):
        return int(argument.__array_interface__["data"][0])
    return None


def _bytes(argument: Any) -> int:
    return int(argument.nbytes)


def _packed(argument: Any, size: int) -> bytes:
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, float):
        return struct.pack("<d" if size == 8 else "<f", argument)
    return (int(argument) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _three(sizes: Sizes) -> tuple[int, int, int]:
    values = (sizes,) if isinstance(sizes, int) else sizes
    padded = (*values, 1, 1)[:3]
    return padded[0], padded[1], padded[2]
