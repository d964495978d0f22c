"""``mma.sync``: matrices in the registers of a warp."""

from __future__ import annotations

import re
from dataclasses import dataclass

from precast.emulator.lowering.lowering import Lowering, Operand, Unsupported, lowers
from precast.emulator.lowering.products.elements import ACCUMULATORS, ELEMENTS, INTEGERS, bits_of

_SHAPE = re.compile(r"m(8|16)n8k(\d+)$")
_SATURATES, _IN_BYTES, _WHOLE = 1, 2, 4
_BLOCKS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
_VECTORS = {  # of each kind with scales; the first is the default
    "kind::mxf8f6f4": ("scale_vec::1X",),
    "kind::mxf4": ("scale_vec::2X",),
    "kind::mxf4nvf4": ("", "scale_vec::2X", "scale_vec::4X"),
}


@dataclass(frozen=True, slots=True)
class _Registers:
    d: list[Operand]
    a: list[Operand]
    b: list[Operand]
    c: list[Operand]

    def all(self) -> list[Operand]:
        return self.d + self.a + self.b + self.c

    def counts(self) -> tuple[int, int, int]:
        return len(self.d), len(self.a), len(self.b)


@lowers("mma")
def multiply(to: Lowering) -> None:
    """``mma.sync.aligned.shape.row.col{.kind}.d.a.b.c d, a, b, c``."""
    words = to.modifiers
    words.choose("sync")
    words.choose("aligned")
    shape = next((match for word in words.left if (match := _SHAPE.match(word))), None)
    if shape is None:
        raise Unsupported("its shape is not emulated")
    words.take(shape.string)
    words.choose("row")
    words.choose("col")
    rows, depth = int(shape[1]), int(shape[2])
    saturates = words.take("satfinite")
    kind = words.option("kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
    if kind.startswith("kind::mx"):
        return _scaled(to, depth, kind)
    sums, left, right, added = (words.next() for _ in range(4))
    bits = 64 if left == "f64" else 32
    registers = _registers(to, bits)
    if sums != added or left not in ELEMENTS or right not in ELEMENTS or sums not in {**ACCUMULATORS, "f64": 3}:
        raise Unsupported(f"a product of {left} and {right} into {sums}")
    if (left in INTEGERS) != (sums == "s32") or (saturates and sums != "s32"):
        raise Unsupported(f"a product of {left} into {sums}")
    in_bytes = kind == "kind::f8f6f4"
    _check(registers, rows, depth, 8 if in_bytes else bits_of(left), sums)
    whole = bits_of(left) <= 8 and to.architecture.startswith("sm_12")
    flags = _SATURATES * saturates | _IN_BYTES * in_bytes | _WHOLE * whole
    if bits == 64:
        to.emit("mma_f64", to.pool(registers.all()), *registers.counts(), rows, depth)
        return
    to.emit(
        "mma",
        *(to.pool(registers.all()), *registers.counts(), rows, depth),
        *(ELEMENTS[left], ELEMENTS[right], ACCUMULATORS[sums], flags),
    )


def _registers(to: Lowering, bits: int) -> _Registers:
    d, a, b, c = to.operands[:4]
    return _Registers(
        [to.target(item, bits) for item in to.items(d)],
        *([to.source(item, bits) for item in to.items(text)] for text in (a, b, c)),
    )


def _check(registers: _Registers, rows: int, depth: int, bits: int, sums: str) -> None:
    width = 64 if bits == 64 else 32
    expected_d = rows * 8 * {"f16": 16, "f64": 64}.get(sums, 32) // (32 * width)
    expected = (expected_d, rows * depth * bits // (32 * width), 8 * depth * bits // (32 * width))
    if registers.counts() != expected or len(registers.c) != expected_d:
        raise Unsupported(f"{registers.counts()} registers, not {expected}")


def _scaled(to: Lowering, depth: int, kind: str) -> None:
    """With block scales; sm_120a."""
    words = to.modifiers
    words.choose("block_scale")
    vector = words.option(*_BLOCKS) or _VECTORS[kind][0]
    if not vector:
        raise Unsupported("the size of the blocks is missing")
    if vector not in _VECTORS[kind] or depth != (32 if kind == "kind::mxf8f6f4" else 64):
        raise Unsupported(f"{vector} and a depth of {depth} with {kind}")
    blocks = _BLOCKS[vector]
    sums, left, right, added, scale = (words.next() for _ in range(5))
    if (sums, added) != ("f32", "f32") or scale not in (("ue8m0", "ue4m3") if blocks == 4 else ("ue8m0",)):
        raise Unsupported(f"a product with {blocks} scales of {scale} into {sums}")
    registers = _registers(to, 32)
    in_bytes = kind == "kind::mxf8f6f4"
    _check(registers, 16, depth, 8 if in_bytes else 4, sums)
    to.expect(8)
    scale_a, where_a, scale_b, where_b = to.operands[4:]
    scales = [
        *(to.source(item) for item in (*to.items(scale_a), *to.items(where_a))),
        *(to.source(item) for item in (*to.items(scale_b), *to.items(where_b))),
    ]
    if len(scales) != 6:
        raise Unsupported("its scales are not emulated")
    to.emit(
        "mma_scaled",
        *(to.pool(registers.all() + scales), *registers.counts(), ELEMENTS[scale], depth),
        *(ELEMENTS[left], ELEMENTS[right], blocks, _IN_BYTES * in_bytes),
    )
