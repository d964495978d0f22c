"""Approximate functions: every mantissa of the exponents that matter, and samples of all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .case import HEADER
from .operands import Stream, Words, float_specials

KERNEL = """
.visible .entry {entry}(.param .u64 first, .param .u64 step, .param .u64 given, .param .u64 to)
{{
.reg .pred %p;
.reg .b16 %h<4>;
.reg .b32 %r<8>;
.reg .b64 %l<8>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r1, %r2, 128, %r1;
mul.wide.u32 %l0, %r1, 4;
ld.param.u64 %l1, [given];
setp.ne.u64 %p, %l1, 0;
@%p bra GIVEN;
ld.param.u32 %r3, [first];
ld.param.u32 %r4, [step];
mad.lo.u32 %r5, %r1, %r4, %r3;
bra RUN;
GIVEN:
add.s64 %l1, %l1, %l0;
ld.global.b32 %r5, [%l1];
RUN:
{opcode} %r6, %r5;
ld.param.u64 %l2, [to];
add.s64 %l2, %l2, %l0;
st.global.b32 [%l2], %r6;
ret;
}}
"""
FUNCTIONS = {
    "ex2": "ex2.approx.ftz.f32",
    "lg2": "lg2.approx.ftz.f32",
    "rcp": "rcp.approx.ftz.f32",
    "rsqrt": "rsqrt.approx.ftz.f32",
    "sqrt": "sqrt.approx.ftz.f32",
    "sin": "sin.approx.ftz.f32",
    "cos": "cos.approx.ftz.f32",
    "tanh": "tanh.approx.f32",
    "ex2.denormal": "ex2.approx.f32",
    "lg2.denormal": "lg2.approx.f32",
    "rcp.denormal": "rcp.approx.f32",
    "rsqrt.denormal": "rsqrt.approx.f32",
    "sqrt.denormal": "sqrt.approx.f32",
    "sin.denormal": "sin.approx.f32",
    "cos.denormal": "cos.approx.f32",
}
HALVES = ("tanh.approx.f16x2", "tanh.approx.bf16x2", "ex2.approx.f16x2", "ex2.approx.ftz.bf16x2")
# Binades (exponent, sign) of which every mantissa is measured, with the step.
SWEEPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "ex2": ((0, 0, 1), (-1, 0, 1), (0, 1, 1), (-1, 1, 1), (-2, 0, 4), (-4, 1, 8), (3, 0, 8), (6, 1, 8)),
    "lg2": ((0, 0, 1), (-1, 0, 1), (1, 0, 4), (-2, 0, 8), (5, 0, 8), (-20, 0, 8)),
    "rcp": ((0, 0, 1), (1, 1, 8), (-120, 0, 8), (125, 0, 16), (126, 0, 16)),
    "rsqrt": ((0, 0, 1), (1, 0, 1), (-100, 0, 8)),
    "sqrt": ((0, 0, 1), (1, 0, 1), (-100, 0, 8)),
    "sin": ((0, 0, 1), (-1, 0, 1), (1, 0, 2), (3, 1, 8), (-6, 0, 8)),
    "cos": ((0, 0, 1), (-1, 0, 4), (1, 0, 4), (3, 1, 8)),
    "tanh": ((0, 0, 1), (-1, 0, 1), (-2, 0, 1), (1, 0, 4), (2, 0, 4), (3, 0, 8), (-3, 0, 4), (-4, 1, 8), (-6, 0, 16)),
}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Arguments `first + i * step` (as bits) of one function."""

    function: str
    first: int
    step: int
    count: int

    @property
    def name(self) -> str:
        return f"{self.function}:{self.first:08x}:{self.step}:{self.count}"


def sweeps() -> Iterator[Sweep]:
    """Every sweep, and all pairs of equal halves for the functions of 16 bits."""
    for function, binades in SWEEPS.items():
        for exponent, sign, step in binades:
            yield Sweep(function, sign << 31 | (exponent + 127) << 23, step, (1 << 23) // step)
    for opcode in HALVES:
        yield Sweep(opcode, 0, 0x00010001, 1 << 16)


def samples(function: str) -> Words:
    """Arguments of all exponents and both signs, and special ones."""
    stream = Stream("samples " + function)
    each = 64 if "." in function else 256 if function in ("ex2", "lg2", "tanh", "sin", "cos") else 128
    exponents = np.repeat(np.arange(512, dtype=np.uint64), each) << np.uint64(23)
    mantissas = stream.words(512 * each) >> np.uint64(41)
    mantissas[::each] = 0
    mantissas[1::each] = (1 << 23) - 1
    mantissas[2::each] = 1
    specials = float_specials("f32")
    return np.concatenate([specials, np.zeros((-len(specials)) % 128, np.uint64), exponents | mantissas])


def entry(opcode: str) -> str:
    """The name of a function's kernel."""
    return "f_" + opcode.replace(".", "_")


def ptx() -> str:
    """One module with a kernel for each function."""
    opcodes = [*FUNCTIONS.values(), *HALVES]
    return HEADER + "".join(
        KERNEL.format(entry=entry(o), opcode=o).replace("GIVEN", "G" + entry(o)).replace("RUN", "R" + entry(o))
        for o in opcodes
    )
