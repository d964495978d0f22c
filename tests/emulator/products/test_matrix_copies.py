"""ldmatrix, stmatrix and movmatrix, from the figures of the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.emulator import kernel, run_ptx
from tests.helpers.emulator.registers import Array, declare, load_registers, names, store_registers, vector

_SHARED = ".shared .align 128 .b8 memory[4096];"


def rows_of(matrices: int, generator: np.random.Generator) -> Array:
    """Rows of 16 bytes, 8 for each matrix."""
    return generator.integers(0, 256, (matrices * 8, 16), np.uint8)


def fill_shared(rows: int) -> str:
    """Copy rows of 16 bytes from ``source`` to shared memory; lane i has the address of row i in ``at``."""
    return f"""
{{ .reg .b64 from; .reg .b32 word, x, y, z; .reg .pred mine;
mov.u32 at, memory; shl.b32 word, %laneid, 4; add.u32 at, at, word;
mul.wide.u32 from, word, 1; add.u64 from, from, source;
setp.lt.u32 mine, %laneid, {rows};
@mine ld.global.v4.b32 {{word, x, y, z}}, [from];
@mine st.shared.v4.b32 [at], {{word, x, y, z}}; }}
bar.warp.sync -1;
"""


def load(instruction: str, rows: Array, registers: int) -> Array:
    """What the instruction loads from these rows."""
    held = names("d", registers)
    body = f"{_SHARED} .reg .b32 at; {declare(held)} {fill_shared(len(rows))}"
    body += f"{instruction} {vector(held)}, [at];\n{store_registers(held, 'out')}"
    out = np.zeros((registers, 32), np.uint32)
    run_ptx(kernel(body, "u64 source, u64 out"), [rows, out], read_only=(0,))
    return out


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_spreads_rows_over_lanes(count: int, transposed: bool) -> None:
    rows = rows_of(count, np.random.default_rng(1))
    got = load(f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16", rows, count)
    for matrix in range(count):
        elements = rows[matrix * 8 : matrix * 8 + 8].view(np.uint16)
        for i in range(8):
            for j in range(8):
                row, column = (j, i) if transposed else (i, j)
                lane, half = row * 4 + column // 2, column % 2
                assert got[matrix, lane] >> (16 * half) & 0xFFFF == elements[i, j]


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_transposes_bytes(count: int) -> None:
    rows = rows_of(2 * count, np.random.default_rng(2))
    got = load(f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8", rows, 2 * count)
    for matrix in range(count):
        for row in range(16):
            for column in range(16):
                lane = column % 8 * 4 + row // 4
                register, byte = matrix * 2 + row % 4 // 2, row % 2 + column // 8 * 2
                assert got[register, lane] >> (8 * byte) & 0xFF == rows[matrix * 16 + row, column]


@pytest.mark.parametrize("bits", [4, 6])
def test_ldmatrix_expands_elements_of_less_than_a_byte(bits: int) -> None:
    rows = rows_of(2, np.random.default_rng(3))
    form = {4: "b4x16_p64", 6: "b6x16_p32"}[bits]
    got = load(f"ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.{form}", rows, 2)
    for row in range(16):
        whole = int.from_bytes(rows[row].tobytes(), "little")
        for column in range(16):
            value = got[row // 8, row % 8 * 4 + column // 4] >> (8 * (column % 4)) & 0xFF
            assert value == whole >> (bits * column) & ((1 << bits) - 1)


def store(instruction: str, values: Array, rows: int) -> Array:
    """The rows of shared memory that the instruction stores."""
    held = names("s", len(values))
    body = f"{_SHARED} .reg .b32 at; .reg .b64 to; .reg .b32 word, x, y, z; {declare(held)}"
    body += load_registers(held, "source")
    body += (
        f"mov.u32 at, memory; shl.b32 word, %laneid, 4; add.u32 at, at, word;\n{instruction} [at], {vector(held)};\n"
    )
    body += "bar.warp.sync -1; mul.wide.u32 to, word, 1; add.u64 to, to, out;\n"
    body += f".reg .pred mine; setp.lt.u32 mine, %laneid, {rows};\n"
    body += "@mine ld.shared.v4.b32 {word, x, y, z}, [at]; @mine st.global.v4.b32 [to], {word, x, y, z};"
    out = np.zeros((rows, 16), np.uint8)
    run_ptx(kernel(body, "u64 source, u64 out"), [values, out], read_only=(0,))
    return out


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_stmatrix_is_the_inverse_of_ldmatrix(count: int, transposed: bool) -> None:
    values = np.random.default_rng(4).integers(0, 1 << 32, (count, 32), np.uint32)
    suffix = ".trans" if transposed else ""
    rows = store(f"stmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16", values, 8 * count)
    got = load(f"ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16", rows, count)
    np.testing.assert_array_equal(got, values)


def test_stmatrix_of_bytes_stores_accumulators_transposed() -> None:
    """Register i holds rows of M lane / 4 and that + 8, columns of N lane % 4 * 2 and the next; rows are N."""
    values = np.random.default_rng(5).integers(0, 1 << 32, (2, 32), np.uint32)
    rows = store("stmatrix.sync.aligned.m16n8.x2.trans.shared.b8", values, 16)
    for n in range(16):
        for m in range(16):
            lane, byte = m % 8 * 4 + n % 8 // 2, n % 2 + m // 8 * 2
            assert rows[n, m] == values[n // 8, lane] >> (8 * byte) & 0xFF


def test_movmatrix_transposes() -> None:
    values = np.random.default_rng(6).integers(0, 1 << 32, (1, 32), np.uint32)
    body = f"{declare(['s', 'd'])} {load_registers(['s'], 'source')}"
    body += f"movmatrix.sync.aligned.m8n8.trans.b16 d, s;\n{store_registers(['d'], 'out')}"
    out = np.zeros((1, 32), np.uint32)
    run_ptx(kernel(body, "u64 source, u64 out"), [values, out], read_only=(0,))
    matrix, transposed = (array.view(np.uint16).reshape(8, 8) for array in (values, out))
    np.testing.assert_array_equal(transposed, matrix.T)
