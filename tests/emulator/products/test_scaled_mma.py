"""mma.sync of sm_120a and sm_121a: elements of 4, 6 and 8 bits, with and without block scales."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from precast.emulator.errors import Unsupported
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

_SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
_KINDS = [  # kind, scale vector, type of the scales, how many scales a row has
    ("mxf8f6f4", ".scale_vec::1X", "ue8m0", 1),
    ("mxf8f6f4", "", "ue8m0", 1),
    ("mxf4", ".scale_vec::2X", "ue8m0", 2),
    ("mxf4", "", "ue8m0", 2),
    ("mxf4nvf4", ".scale_vec::2X", "ue8m0", 2),
    ("mxf4nvf4", ".scale_vec::4X", "ue4m3", 4),
]


def in_registers(matrix: Array, element: str, *, bytes_each: bool, rows: int) -> Array:
    """Registers with a matrix of ``rows`` rows: A, or B transposed, by the figures of the PTX ISA."""
    each = 4 if bytes_each else 8
    shift = 2 if bytes_each and element == "e2m1" else 0  # 4 bits lie in the middle of a byte
    out = np.zeros((matrix.size * (32 // each) // 1024, 32), np.uint32)
    for row, k in itertools.product(range(rows), range(matrix.shape[1])):
        register = row // 8 + rows // 8 * (k // (4 * each))
        lane, bit = row % 8 * 4 + k // each % 4, k % each * (32 // each) + shift
        out[register, lane] |= np.uint32(int(codes(matrix[row, k], element)) << bit)
    return out


def accumulators(matrix: Array) -> Array:
    """Registers with a matrix of 16 by 8 numbers of float32."""
    out = np.zeros((4, 32), np.float32)
    for row, column in itertools.product(range(16), range(8)):
        out[row // 8 * 2 + column % 2, row % 8 * 4 + column // 2] = matrix[row, column]
    return out.view(np.uint32)


def scale_registers(scales: Array, lanes_of: Array, stype: str, byte: int) -> Array:
    """A register whose bytes from ``byte`` on are the scales 2**e of row r in lane ``lanes_of[r]``; 0xff elsewhere."""
    out = np.full((32, 4), 0xFF, np.uint8)  # a NaN in both types of scales
    for row, lane in enumerate(lanes_of):
        for index, exponent in enumerate(scales[row]):
            out[lane, byte + index] = exponent + 127 if stype == "ue8m0" else (exponent + 7) << 3
    return out.view(np.uint32).reshape(1, 32)


def run(text: str, *registers: Array, target: str = "sm_120a") -> Array:
    """The registers of D for those of A, B, C and the scales."""
    prefixes = "abcst"[: len(registers)]
    lists = {p: names(p, len(r)) for p, r in zip(prefixes, registers, strict=True)} | {"d": names("d", 4)}
    body = [declare(each) for each in lists.values()]
    body += [load_registers(lists[p], f"in_{p}") for p in prefixes]
    body.append(text.format(abcd=", ".join(vector(lists[p]) for p in "dabc")))
    body.append(store_registers(lists["d"], "out"))
    d = np.zeros((4, 32), np.uint32)
    parameters = ", ".join(f"u64 in_{p}" for p in prefixes) + ", u64 out"
    run_ptx(kernel("\n".join(body), parameters, target=target), [*registers, d], read_only=range(len(registers)))
    return d


def scaled(kind: str, vector: str, a: str, b: str, stype: str, where: tuple[int, int, int, int]) -> str:
    k = 32 if kind == "mxf8f6f4" else 64
    return (
        f"mma.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale{vector}.f32.{a}.{b}.f32.{stype} {{abcd}}, "
        f"{{{{s0}}}}, {{{{{where[0]}, {where[1]}}}}}, {{{{t0}}}}, {{{{{where[2]}, {where[3]}}}}};"
    )


CASES = [
    *(("mxf8f6f4", ".scale_vec::1X", "ue8m0", 1, a, b) for a in _SMALL for b in _SMALL),
    *((*kind, "e2m1", "e2m1") for kind in _KINDS[1:]),
]


@pytest.mark.parametrize(("kind", "vector", "stype", "blocks", "a_type", "b_type"), CASES)
def test_scales_are_those_of_their_rows_blocks_bytes_and_threads(
    kind: str, vector: str, stype: str, blocks: int, a_type: str, b_type: str
) -> None:
    generator = np.random.default_rng(11)
    k = 32 if kind == "mxf8f6f4" else 64
    a, b, c = small_values(generator, (16, k)), small_values(generator, (8, k)), small_values(generator, (16, 8))
    scale_a, scale_b = (generator.integers(-2, 3, (rows, blocks)) for rows in (16, 8))
    byte_a, byte_b = (generator.integers(0, 4 // blocks) * blocks for _ in range(2))
    thread_a, thread_b = generator.integers(0, 2), generator.integers(0, 4)
    got = run(
        scaled(kind, vector, a_type, b_type, stype, (byte_a, thread_a, byte_b, thread_b)),
        in_registers(a, a_type, bytes_each=kind == "mxf8f6f4", rows=16),
        in_registers(b, b_type, bytes_each=kind == "mxf8f6f4", rows=8),
        accumulators(c),
        scale_registers(scale_a, np.arange(16) % 8 * 4 + thread_a * 2 + np.arange(16) // 8, stype, byte_a),
        scale_registers(scale_b, np.arange(8) * 4 + thread_b, stype, byte_b),
    )
    expected = (a * 2.0 ** scale_a.repeat(k // blocks, 1)) @ (b * 2.0 ** scale_b.repeat(k // blocks, 1)).T + c
    np.testing.assert_array_equal(got, accumulators(expected))


@pytest.mark.parametrize("element", ["e5m2", "e3m2"])
def test_elements_below_the_normal_numbers_of_float8_count(element: str) -> None:
    least = {"e5m2": 2.0**-16, "e3m2": 2.0**-4}[element]  # its code is 1
    a = np.full((4, 32), 0x01010101, np.uint32)
    b = np.full((2, 32), 0x3C3C3C3C if element == "e5m2" else 0x0C0C0C0C, np.uint32)  # 1 in the same format
    one = np.full((1, 32), 0x7F7F7F7F, np.uint32)
    got = run(
        scaled("mxf8f6f4", "", element, element, "ue8m0", (0, 0, 0, 0)), a, b, accumulators(np.zeros((16, 8))), one, one
    )
    assert (got.view(np.float32) == 32 * least).all()


@pytest.mark.parametrize(("a_type", "b_type"), [*itertools.product(_SMALL, _SMALL)])
def test_elements_without_scales_lie_in_bytes(a_type: str, b_type: str) -> None:
    generator = np.random.default_rng(5)
    a, b, c = small_values(generator, (16, 32)), small_values(generator, (8, 32)), small_values(generator, (16, 8))
    got = run(
        f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{a_type}.{b_type}.f32 {{abcd}};",
        in_registers(a, a_type, bytes_each=True, rows=16),
        in_registers(b, b_type, bytes_each=True, rows=8),
        accumulators(c),
    )
    np.testing.assert_array_equal(got, accumulators(a @ b.T + c))


@pytest.mark.parametrize(("target", "expected"), [("sm_90a", 2.0**-14), ("sm_120a", 0.0), ("sm_121a", 0.0)])
def test_float8_is_added_in_one_sum_on_sm_120(target: str, expected: float) -> None:
    """2**30 - 2**30 + 2**-14: one sum cuts the last term off, which two products of float16 keep apart."""
    a, b = np.zeros((4, 32), np.uint32), np.zeros((2, 32), np.uint32)
    a[:2, ::4], b[0, ::4] = 0x0004F878, 0x003C7878  # e5m2: 2**15, -2**15, 2**-14 times 2**15, 2**15, 1
    text = "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {abcd};"
    got = run(text, a, b, accumulators(np.zeros((16, 8))), target=target)
    assert (got.view(np.float32) == expected).all()


def test_a_product_of_16_scales_a_row_without_their_number_is_refused() -> None:
    registers = [np.zeros((n, 32), np.uint32) for n in (4, 2, 4, 1, 1)]
    with pytest.raises(Unsupported, match="the size of the blocks is missing"):
        run(scaled("mxf4nvf4", "", "e2m1", "e2m1", "ue4m3", (0, 0, 0, 0)), *registers)
