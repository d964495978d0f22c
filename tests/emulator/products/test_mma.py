"""mma.sync: every shape and type, element by element from the figures of the PTX ISA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.helpers.emulator import kernel, run_ptx
from tests.helpers.emulator.registers import (
    Array,
    codes,
    declare,
    load_registers,
    names,
    small_values,
    store_registers,
    vector,
)

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "e4m3": 8, "e5m2": 8, "f64": 64}

Place: TypeAlias = Callable[[int, int], tuple[int, int, int]]


@dataclass(frozen=True)
class Shape:
    """A shape of mma.sync with its types."""

    m: int
    k: int
    a: str
    b: str
    d: str

    def __str__(self) -> str:
        return f"m{self.m}n8k{self.k}.row.col.{self.d}.{self.a}.{self.b}.{self.d}"


SHAPES = [
    *(Shape(16, k, kind, kind, "f32") for kind in ("f16", "bf16") for k in (8, 16)),
    *(Shape(16, k, "f16", "f16", "f16") for k in (8, 16)),
    *(Shape(16, k, "tf32", "tf32", "f32") for k in (4, 8)),
    *(Shape(16, k, a, b, "s32") for k in (16, 32) for a in ("s8", "u8") for b in ("s8", "u8")),
    Shape(8, 16, "s8", "u8", "s32"),
    *(Shape(16, k, a, "s4", "s32") for k in (32, 64) for a in ("s4", "u4")),
    *(Shape(16, 32, a, b, d) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f32", "f16")),
    Shape(16, 16, "e4m3", "e5m2", "f32"),
    Shape(8, 4, "f64", "f64", "f64"),
    *(Shape(16, k, "f64", "f64", "f64") for k in (4, 8, 16)),
]


def place_in_a(shape: Shape, row: int, k: int) -> tuple[int, int, int]:
    """Lane, register, and bit of an element of A."""
    width = max(32, _BITS[shape.a])
    each = width // _BITS[shape.a]
    lane = row % 8 * 4 + k // each % 4
    register = (1 if row >= 8 else 0) + shape.m // 8 * (k // (4 * each))
    return lane, register, k % each * _BITS[shape.a]


def place_in_b(shape: Shape, k: int, column: int) -> tuple[int, int, int]:
    """Lane, register, and bit of an element of B."""
    each = max(32, _BITS[shape.b]) // _BITS[shape.b]
    return column * 4 + k // each % 4, k // (4 * each), k % each * _BITS[shape.b]


def place_in_d(shape: Shape, row: int, column: int) -> tuple[int, int, int]:
    """Lane, register, and bit of an element of C and D."""
    lane, index = row % 8 * 4 + column // 2, (row // 8) * 2 + column % 2
    return (lane, index // 2, index % 2 * 16) if shape.d == "f16" else (lane, index, 0)


def spread(matrix: Array, place: Place, registers: int, wide: bool) -> Array:
    """Registers that hold the codes of a matrix."""
    out = np.zeros((registers, 32), np.uint64)
    for row in range(matrix.shape[0]):
        for column in range(matrix.shape[1]):
            lane, register, bit = place(row, column)
            out[register, lane] |= matrix[row, column] << np.uint64(bit)
    return out if wide else out.astype(np.uint32)


def run(shape: Any, a: Array, b: Array, c: Array, modifiers: str = "") -> Array:
    """The registers of D for registers of A, B and C."""
    bits = 64 if shape.a == "f64" else 32
    registers = {"a": names("a", len(a)), "b": names("b", len(b)), "c": names("c", len(c)), "d": names("d", len(c))}
    body = [declare(each, bits=bits) for each in registers.values()]
    body += [load_registers(registers[name], f"in_{name}", bits=bits) for name in "abc"]
    body.append(f"mma.sync.aligned.{modifiers}{shape} {', '.join(vector(registers[name]) for name in 'dabc')};")
    body.append(store_registers(registers["d"], "out", bits=bits))
    d = np.zeros_like(c)
    text = kernel("\n".join(body), "u64 in_a, u64 in_b, u64 in_c, u64 out")
    run_ptx(text, [a, b, c, d], read_only=(0, 1, 2))
    return d


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_is_where_the_figures_have_it(shape: Shape) -> None:
    generator = np.random.default_rng(7)
    a, b = small_values(generator, (shape.m, shape.k), shape.a), small_values(generator, (shape.k, 8), shape.b)
    c = small_values(generator, (shape.m, 8))
    wide = shape.a == "f64"
    count = shape.m * 8 // 32 // (2 if shape.d == "f16" else 1)
    got = run(
        shape,
        spread(
            codes(a, shape.a),
            lambda r, k: place_in_a(shape, r, k),
            shape.m * shape.k * _BITS[shape.a] // (2048 if wide else 1024),
            wide,
        ),
        spread(
            codes(b, shape.b),
            lambda k, n: place_in_b(shape, k, n),
            8 * shape.k * _BITS[shape.b] // (2048 if wide else 1024),
            wide,
        ),
        spread(codes(c, shape.d), lambda r, n: place_in_d(shape, r, n), count, wide),
    )
    expected = spread(codes(a @ b + c, shape.d), lambda r, n: place_in_d(shape, r, n), count, wide)
    np.testing.assert_array_equal(got, expected)


def test_sums_of_integers_saturate_when_they_are_told_to() -> None:
    shape = Shape(16, 16, "s8", "s8", "s32")
    ones = np.full((2, 32), 0x01010101, np.uint32)
    c = np.full((4, 32), 0x7FFFFFFF, np.uint32)
    wrapped = run(shape, ones, ones[:1].copy(), c)
    saturated_shape = "m16n8k16.row.col.satfinite.s32.s8.s8.s32"
    text_shape = type("Named", (), {"__str__": lambda self: saturated_shape, "a": "s8"})()
    saturated = run(text_shape, ones, ones[:1].copy(), c)
    assert (wrapped == 0x8000000F).all()
    assert (saturated == 0x7FFFFFFF).all()
