"""Small kernels in PTX, run on arrays of this process."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy

from precast.emulator import Counts, Emulator, Launch, Memory, Options, find_library
from precast.emulator.launch import DEFAULT

SANITIZED = "PRECAST_TEST_SANITIZED"  # a process in which the interpreter checks its own memory accesses
MULTICAST = 1 << 58  # added to the address of the first copy, it is the address of all: nothing else is there
Sizes = int | tuple[int, ...]


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
    preferred: Sizes = 0,
    shared: int = 0,
    seed: int = 0,
    delay: int = 0,
    check_races: bool = False,
    limit: int = 100_000_000,
    multiprocessors: int = 132,
    registers: int = 0,
    clusters: Mapping[int, int] | None = None,
    fill: tuple[int, int] = DEFAULT.fill,
    read_only: Collection[int] = (),
    name: str = "",
    repeat: int = 1,
    overlap: bool = False,
) -> Counts:
    """Run a kernel.

    Parameters
    ----------
    text
        A module; ``name`` picks one of its kernels.
    arguments
        For each parameter an array of numpy or torch, which is passed by its address, a number, bytes, or memory.
    read_only
        The places of arrays that the kernel may only read.
    repeat, overlap
        How many launches there are, and whether each may begin before the one before it has ended.
    """
    emulator = Emulator([text], find_library(sanitize=bool(os.environ.get(SANITIZED))))
    parameters = tuple(_parameter(a, place, place not in read_only) for place, a in enumerate(arguments))
    copies = [Memory(a.first, a.first + (a.copies - 1) * a.step + a.end - a.begin) for a in arguments if _multicast(a)]
    launch = Launch(
        kernel=name or emulator.kernels[0],
        grid=_three(grid),
        block=_three(block),
        cluster=_three(cluster),
        preferred=_three(preferred) if preferred else (0, 0, 0),
        shared=shared,
        overlap=overlap,
        registers=registers,
        parameters=parameters,
    )
    options = Options(
        seed=seed,
        delay=delay,
        check_races=check_races,
        limit=limit,
        multiprocessors=multiprocessors,
        clusters=clusters or {},
        fill=fill,
    )
    return emulator.run([launch] * repeat, copies, options).checked()


def _multicast(argument: Any) -> bool:
    return isinstance(argument, Memory) and argument.copies > 0


def _parameter(argument: Any, place: int, writable: bool) -> bytes | int | Memory:
    if isinstance(argument, float):
        return struct.pack("<f", argument)
    if hasattr(argument, "data_ptr"):
        begin = int(argument.data_ptr())
    elif hasattr(argument, "__array_interface__"):
        begin = int(argument.__array_interface__["data"][0])
    else:
        return argument  # type: ignore[no-any-return]
    return Memory(begin, begin + int(argument.nbytes), writable, f"argument {place}", owner=argument)


def multicast(copies: Any) -> Memory:
    """Multicast memory: a tensor of torch, whose first dimension is of the copies."""
    first, size = int(copies.data_ptr()), copies[0].numel() * copies.element_size()
    step = copies.stride(0) * copies.element_size()
    begin = MULTICAST + first
    return Memory(begin, begin + size, copies=len(copies), first=first, step=step, owner=copies)


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
