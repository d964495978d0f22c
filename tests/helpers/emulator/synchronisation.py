"""Small kernels of PTX that are right, and their wrong twins: a statement or the launch is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from precast.emulator import EmulationFault
from tests.helpers.emulator import run_ptx

Array: TypeAlias = "npt.NDArray[np.generic]"
DELAYS = (20, 200, 3000)
NAN, LARGE, LOW = 0x7FFF7FFF, 0x7B7B7B7B, 0xFBFBFBFB
FILLS = ((LOW, 0), (NAN, NAN), (LARGE, 0))  # of what is not written yet, as of the runs of ``precast verify``


def module(body: str, parameters: int, *, registers: str = "", target: str = "sm_100a") -> str:
    """A module with the kernel ``k``, whose parameters are addresses, in %rd1, %rd2 and so on; %r1 is the thread."""
    names = [f"k_param_{i}" for i in range(parameters)]
    signature = ",\n".join(f".param .u64 {name}" for name in names)
    loads = "\n".join(f"ld.param.b64 %rd{i + 1}, [{name}];" for i, name in enumerate(names))
    return (
        f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k({signature})\n{{\n"
        f".reg .pred %p<16>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<64>;\n{registers}\n{loads}\n"
        f"mov.u32 %r1, %tid.x;\n{body}\n}}\n"
    )


@dataclass(frozen=True)
class Twin:
    """A wrong twin: ``old`` becomes ``new``, and the emulator finds ``kinds`` at the line that holds ``at``.

    ``launch`` are fields of the kernel that differ.
    """

    name: str
    old: str
    new: str
    kinds: tuple[str, ...]
    at: str = ""
    launch: Mapping[str, Any] = field(default_factory=dict)


RIGHT = Twin("the kernel itself", "", "", ())


@dataclass(frozen=True)
class Kernel:
    """A right kernel with its launch, and what its output must be."""

    text: str
    output: Array
    inputs: tuple[Array, ...] = ()
    block: int = 64
    grid: int = 1
    cluster: int = 1
    launches: int = 1
    overlap: bool = False
    scratch: tuple[Array, ...] = ()
    shared: int = 0
    registers: int = 0
    multiprocessors: int = 132
    clusters: Mapping[int, int] = field(default_factory=dict)
    twins: Sequence[Twin] = field(default=())


def schedule(number: int) -> dict[str, Any]:
    """The runs of ``precast verify``: a first and a second one in order, then random ones with several delays."""
    common = {"check_races": True, "limit": 2_000_000}
    if number < 2:
        return {"seed": 0, "delay": 0, "fill": ((NAN, NAN), (LARGE, LARGE))[number], **common}
    seed = number - 1
    return {"seed": seed, "delay": DELAYS[seed % len(DELAYS)], "fill": FILLS[(seed - 1) % len(FILLS)], **common}


def run(kernel: Kernel, text: str, seed: int) -> None:
    """Run it once and compare its output."""
    output = np.zeros_like(kernel.output)
    run_ptx(
        text,
        [*kernel.inputs, *(array.copy() for array in kernel.scratch), output],
        grid=kernel.grid,
        block=kernel.block,
        cluster=kernel.cluster,
        repeat=kernel.launches,
        overlap=kernel.overlap,
        shared=kernel.shared,
        registers=kernel.registers,
        multiprocessors=kernel.multiprocessors,
        clusters=kernel.clusters,
        read_only=range(len(kernel.inputs)),
        **schedule(seed),
    )
    np.testing.assert_array_equal(output, kernel.output)


def find(kernel: Kernel, twin: Twin, seeds: int) -> tuple[str, tuple[int, ...]]:
    """How a twin is found: the kind of its first fault and the lines that it names, or ``output``."""
    assert twin.old in kernel.text, f"{twin.old!r} is not in the kernel"
    text = kernel.text.replace(twin.old, twin.new) if twin.old else kernel.text
    kernel = replace(kernel, **twin.launch)
    for seed in range(seeds):
        try:
            run(kernel, text, seed)
        except EmulationFault as fault:
            return fault.kind, (fault.line, fault.other_line)
        except AssertionError:
            return "output", ()
    return "nothing", ()


def line_of(text: str, part: str) -> int:
    """The number of the first line that holds a text."""
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)
