"""One case: a kernel of one instruction over arrays of operands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .operands import Stream, Words, bits, expand, related, values
from .scalar_cases import ARITHMETIC, ATOMICS, BODIES, COMPARISONS, CONVERSIONS
from .warp_cases import WARP

THREADS = 128
COUNT = 2048
HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n"
KERNEL = """
.visible .entry probe(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{{
.reg .pred %p, %q;
.reg .b16 %h<8>;
.reg .b32 %r<8>, %t, %u, %n, %m;
.reg .b64 %l<8>, %x<4>, %at, %i;
.shared .align 8 .b64 cell[128];
mov.u32 %n, %tid.x;
mov.u32 %m, %ctaid.x;
mad.lo.u32 %n, %m, {threads}, %n;
mul.wide.u32 %i, %n, 8;
{loads}
{before}
{body}
{after}
ld.param.u64 %at, [pd];
add.s64 %at, %at, %i;
st.global.b64 [%at], %x3;
ret;
}}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """An instruction with what surrounds it, the kinds of its operands and of its result."""

    name: str
    body: str
    operands: tuple[str, ...]
    result: str
    before: str = ""

    def register(self, position: int, kind: str) -> str:
        """The register of an operand (0 to 2) or of the result (3)."""
        return {16: "%h", 32: "%r", 64: "%l"}[bits(kind)] + str(position)

    def ptx(self) -> str:
        """The kernel: it reads 64-bit words, runs the body and writes 64-bit words."""
        names = dict(zip("abc", (self.register(i, k) for i, k in enumerate(self.operands)), strict=False))
        names["d"] = self.register(3, self.result)
        loads = []
        for i, kind in enumerate(self.operands):
            loads += [f"ld.param.u64 %at, [p{'abc'[i]}];", "add.s64 %at, %at, %i;", f"ld.global.b64 %x{i}, [%at];"]
            width = bits(kind)
            loads += [
                f"cvt.u{width}.u64 {names['abc'[i]]}, %x{i};" if width < 64 else f"mov.b64 {names['abc'[i]]}, %x{i};"
            ]
        width = bits(self.result)
        after = f"cvt.u64.u{width} %x3, {names['d']};" if width < 64 else f"mov.b64 %x3, {names['d']};"
        return HEADER + KERNEL.format(
            threads=THREADS,
            loads="\n".join(loads),
            before=self.before.format(**names),
            body=self.body.format(**names),
            after=after,
        )

    def inputs(self) -> list[Words]:
        """Three arrays of operands; those that the instruction lacks are zero."""
        stream = Stream(self.name)
        arrays: list[Words] = []
        for position, kind in enumerate(self.operands):
            same = position > 0 and kind == self.operands[0]
            arrays.append(related(kind, arrays[0], stream) if same else values(kind, COUNT, stream))
        return arrays + [np.zeros(COUNT, np.uint64)] * (3 - len(arrays))


def _fields(table: str) -> Iterator[list[str]]:
    for line in table.strip().splitlines():
        yield [field.strip() for field in line.split("|")] if "%" not in line else _body_fields(line)


def _body_fields(line: str) -> list[str]:
    return [field.strip() for field in re.split(r" \| ?", line + " ")]


def _kinds(text: str, types: list[str]) -> tuple[str, ...]:
    return tuple(types[int(word[1:-1] or 0)] if word[0] == "{" else word for word in text.split())


TYPE = re.compile(r"(?:pred|tf32|[usb](?:8|16|32|64)|[us]16x2|b?f(?:16|32|64)(?:x2)?|e[45]m[23]x2)$")


def _types(opcode: str) -> list[str]:
    return [word for word in opcode.split(".") if TYPE.match(word)]


def _plain() -> Iterator[Case]:
    for table in (ARITHMETIC, CONVERSIONS):
        for pattern, takes, gives in _fields(table):
            for opcode in expand(pattern):
                types = _types(opcode)
                operands = _kinds(takes, types)
                last = ", 0xe8" if opcode.startswith("lop3") else ""
                letters = list("abc"[: len(operands)])
                if opcode.startswith(("sqrt.rn.f64", "rcp.rn.f64")):
                    operands, letters = operands[:1], ["a"]
                text = ", ".join("{" + c + "}" for c in ["d", *letters])
                yield Case(opcode, f"{opcode} {text}{last};", operands, _kinds(gives, types)[0])


def _comparisons() -> Iterator[Case]:
    for pattern, takes in _fields(COMPARISONS):
        for opcode in expand(pattern):
            operands = _kinds(takes, _types(opcode))
            text = ", ".join("{" + c + "}" for c in "abc"[: len(operands)])
            yield Case(opcode, f"{opcode} %p, {text}; selp.b32 {{d}}, 1, 0, %p;", operands, "u32")


def _atomics() -> Iterator[Case]:
    for pattern, takes in _fields(ATOMICS):
        for opcode in expand(pattern):
            operands = _kinds(takes, _types(opcode))
            width = bits(operands[0])
            more = ", {c}" if len(operands) == 3 else ""
            for space in ("global", "shared"):
                where = "ld.param.u64 %at, [pd]; add.s64 %at, %at, %i;"
                if space == "shared":
                    where = "mov.u64 %at, cell; mov.u32 %n, %tid.x; mul.wide.u32 %l7, %n, 8; add.s64 %at, %at, %l7;"
                if opcode.startswith(("inc", "dec", "exch", "cas", "and", "or", "xor")):
                    opcode = opcode.replace(".u", ".u" if opcode[:3] in ("inc", "dec") else ".b")
                body = f"{where} st.{space}.b{width} [%at], {{a}}; atom.{space}.{opcode} {{d}}, [%at], {{b}}{more};"
                yield Case(
                    f"atom.{space}.{opcode}", body + f" ld.{space}.b{width} {{d}}, [%at];", operands, f"b{width}"
                )


def cases() -> tuple[Case, ...]:
    """Every case, each with a name of its own."""
    own = [
        Case(name, body, tuple(takes.split()), gives, before)
        for table in (BODIES, WARP)
        for name, body, takes, gives, before in ([*f, ""][:5] for f in _fields(table))
    ]
    every = [*_plain(), *_comparisons(), *_atomics(), *own]
    return tuple({case.name: case for case in every}.values())
