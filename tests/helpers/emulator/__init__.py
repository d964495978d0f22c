"""Small kernels in PTX, run on arrays of this process."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Sequence
from typing import Any

import numpy

from precast.emulator.emulator import Counts, EmulatedLaunch, Emulator, MemoryRange, ScheduleOptions
from precast.emulator.interpreter_library import InterpreterLibrary, find_library
from precast.kernels.authoring.composition.addresses import Multicast

SANITIZED = "PRECAST_TEST_SANITIZED"  # a process in which the interpreter checks its own memory accesses
Sizes = int | tuple[int, ...]
__all__ = ["Counts", "aligned", "each", "kernel", "run_ptx"]


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
        ".reg .pred %p<64>; .reg .b16 %rs<64>; .reg .b32 %r<64>; .reg .b64 %rd<64>; "
        ".reg .f32 %f<64>; .reg .f64 %fd<64>; .reg .b128 %q<8>;"
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
        For each parameter an array of numpy or torch, which is passed by its address, a number, bytes, or the address
        of multicast memory, all of whose copies the kernel may write.
    read_only
        The places of arrays that the kernel may only read.
    repeat, overlap
        How many launches there are, and whether each may begin before the one before it has ended.
    """
    emulator = Emulator([text], library or find_library(sanitize=bool(os.environ.get(SANITIZED))))
    chosen = name or emulator.kernels[0]
    sizes = [size for _, size in emulator.program(chosen).parameters]
    memory, parameters = [], []
    for place, argument in enumerate(arguments):
        address = _address(argument)
        if isinstance(argument, Multicast):
            memory += _multicast(argument, f"argument {place}")
        elif address is not None:
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


def _multicast(memory: Multicast, name: str) -> list[MemoryRange]:
    first, size = int(memory.copies.data_ptr()), memory.copies[0].numel() * memory.copies.element_size()
    begin, end = memory.data_ptr(), first + (memory.count - 1) * memory.step + size
    return [
        MemoryRange(first, end, True, f"the copies of {name}"),
        MemoryRange(begin, begin + size, True, name, copies=memory.count, first=first, step=memory.step),
    ]


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


def each(statement: str, result: Any, *sources: Any, before: str = "") -> Any:
    """Execute a statement for each element of arrays, a lane for each.

    ``{d}`` in the statement is the result's register, ``{a}``, ``{b}``, ``{c}``, ``{e}`` are the sources', each of its
    array's size; ``result`` is the type of numpy that is returned. Predicates ``%p0`` and on are free.
    """
    count = len(sources[0])
    output = numpy.zeros(count, result)
    names = "abce"
    arrays = [numpy.ascontiguousarray(source) for source in sources]
    loads = []
    for name, array in zip(names, arrays, strict=False):
        size = 8 * array.itemsize
        register = {16: "%rs", 32: "%r", 64: "%rd"}[size] + str(10 + names.index(name))
        loads.append(f"mad.wide.u32 %rd1, %r1, {array.itemsize}, {name}; ld.global.b{size} {register}, [%rd1];")
        statement = statement.replace(f"{{{name}}}", register)
    size = 8 * output.itemsize
    register = {16: "%rs20", 32: "%r20", 64: "%rd20"}[size]
    body = (
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 128, %r1; setp.ge.u32 %p63, %r1, n; "
        f"@%p63 exit; {' '.join(loads)} {before} {statement.replace('{d}', register)} "
        f"mad.wide.u32 %rd1, %r1, {output.itemsize}, out; st.global.b{size} [%rd1], {register};"
    )
    declared = ["u64 out", "u32 n", *(f"u64 {name}" for name, _ in zip(names, arrays, strict=False))]
    run_ptx(
        kernel(body, ", ".join(declared)),
        [output, count, *arrays],
        grid=-(-count // 128),
        block=128,
        read_only=range(2, 2 + len(arrays)),
    )
    return output


def aligned(array: Any, align: int = 128) -> Any:
    """A copy at an address that is a multiple of a number."""
    memory = numpy.empty(array.nbytes + align, numpy.uint8)
    skip = -memory.ctypes.data % align
    copy = memory[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
