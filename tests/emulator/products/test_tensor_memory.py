"""tcgen05.ld, st, cp and allocation: which register or byte is which cell of tensor memory."""

from __future__ import annotations

import numpy as np
import pytest

from precast.emulator import EmulationFault
from tests.helpers.emulator import kernel, run_ptx
from tests.helpers.emulator.operands import operand
from tests.helpers.emulator.registers import Array, declare, load_registers, names, store_registers, vector
from tests.helpers.emulator.tensor_memory import (
    BEFORE,
    BEGIN,
    END,
    fill_memory,
    random_memory,
    read_memory,
    run_tensor,
)

_SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
_HALF = 24  # the distance of the second half of 16x32bx2


def cells(shape: str, count: int) -> dict[tuple[int, int], tuple[int, int]]:
    """(lane of the warp, register) of each (lane, column) of tensor memory, as the figures of the shapes show it."""
    found = {}
    rows = 32 if shape == "32x32b" else 16
    columns = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}[shape] * count
    for row in range(rows):
        for column in range(columns):
            if shape == "32x32b":
                lane, register = row, column
            elif shape == "16x64b":  # lanes 0 and 2 of four have row r, 1 and 3 row r + 8
                lane, register = row % 8 * 4 + column % 2 * 2 + row // 8, column // 2
            elif shape == "16x128b":
                lane, register = row % 8 * 4 + column % 4, column // 4 * 2 + row // 8
            elif shape == "16x256b":
                lane, register = row % 8 * 4 + column % 8 // 2, column // 8 * 4 + row // 8 * 2 + column % 2
            else:
                lane, register = row, column
                found[lane + 16, register] = (row, column + _HALF)
            found[lane, register] = (row, column)
    return found


def move(what: str, shape: str, count: int, packed: bool, lane: int) -> tuple[str, int]:
    """Load to ``out`` or store from ``source`` the registers of warp 1, at column 64; their number."""
    held = names("v", _SHAPES[shape] * count)
    half = f", {_HALF * (2 if packed else 1)}" if shape == "16x32bx2" else ""
    suffix = {"ld": ".pack::16b", "st": ".unpack::16b"}[what] if packed else ""
    name = f"tcgen05.{what}.sync.aligned.{shape}.x{count}{suffix}.b32"
    text = f"{declare(held)} .reg .b32 cell; add.u32 cell, base, {(32 + lane) << 16 | 64};"
    text += f"{name} {vector(held)}, [cell]{half};" if what == "ld" else f"{name} [cell]{half}, {vector(held)};"
    return text, len(held)


def run_move(what: str, shape: str, count: int, packed: bool, lane: int, memory: Array) -> tuple[Array, Array]:
    """Tensor memory and registers after a load, or after a store of registers."""
    text, registers = move(what, shape, count, packed, lane)
    held = names("v", registers)
    values = np.random.default_rng(9).integers(0, 1 << 32, (registers, 32), np.uint32)
    begin = BEGIN + fill_memory() + BEFORE
    declared, rest = text.split(".reg .b32 cell;")
    moves = load_registers(held, "source") + rest if what == "st" else rest + store_registers(held, "source")
    body = f"{begin} .reg .pred second; setp.eq.u32 second, warp, 1; {declared} .reg .b32 cell; @!second bra OTHERS;"
    body += f"{moves} {'tcgen05.wait::st.sync.aligned;' if what == 'st' else ''}"
    body += f"OTHERS: bar.sync 0; {read_memory()} {END}"
    out = np.zeros_like(memory)
    text = kernel(body.replace("GROUP", "1"), "u64 source, u64 in_tmem, u64 out_tmem")
    run_ptx(text, [values, memory, out], block=128, read_only=(1,))
    return out, values


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("shape", "count", "lane"),
    [("32x32b", 8, 0), ("16x64b", 4, 0), ("16x64b", 2, 16), ("16x128b", 4, 16), ("16x256b", 2, 0), ("16x32bx2", 8, 16)],
)
def test_loads_and_stores_move_the_cells_of_the_figures(shape: str, count: int, lane: int, packed: bool) -> None:
    memory = random_memory()
    out, registers = run_move("ld", shape, count, packed, lane, memory)
    np.testing.assert_array_equal(out, memory)
    part = memory[0, 32 + lane :, 64:]
    for (thread, register), (row, column) in cells(shape, count).items():
        expected = part[row, column]
        if packed:
            expected = (part[row, 2 * column] & 0xFFFF) | (part[row, 2 * column + 1] & 0xFFFF) << np.uint32(16)
        assert registers[register, thread] == expected
    out, registers = run_move("st", shape, count, packed, lane, memory)
    expected_memory = memory.copy()
    part = expected_memory[0, 32 + lane :, 64:]
    for (thread, register), (row, column) in cells(shape, count).items():
        value = registers[register, thread]
        if packed:
            part[row, 2 * column], part[row, 2 * column + 1] = value & 0xFFFF, value >> np.uint32(16)
        else:
            part[row, column] = value
    np.testing.assert_array_equal(out, expected_memory)


def lanes_of(shape: str, row: int) -> list[int]:
    """The lanes that get a row of the source."""
    if shape.startswith("4x"):
        return [row * 32]
    if shape.startswith("32x"):
        return [row + 32 * warp for warp in range(4)]
    if shape.startswith("64x"):
        return [row, row + 64] if "02_13" in shape else [row % 32 + row // 32 * 64 + further for further in (0, 32)]
    return [row]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    ("shape", "rows", "words"),
    [
        ("128x256b", 128, 8),
        ("4x256b", 4, 8),
        ("128x128b", 128, 4),
        ("64x128b.warpx2::02_13", 64, 4),
        ("64x128b.warpx2::01_23", 64, 4),
        ("32x128b.warpx4", 32, 4),
    ],
)
def test_copies_from_shared_memory(shape: str, rows: int, words: int, group: int) -> None:
    generator = np.random.default_rng(rows)
    sources = [generator.integers(0, 1 << 32, (max(8, rows), words), np.uint64) for _ in range(group)]
    operands = [operand(source, 32, "none", mn_major=False) for source in sources]
    memory = random_memory(group)
    expected = memory.copy()
    for block, source in enumerate(sources):
        for row in range(rows):
            for lane in lanes_of(shape, row):
                expected[block, lane, 96 : 96 + words] = source[row]
    text = f".reg .b32 to; add.u32 to, base, 96; tcgen05.cp.cta_group::{group}.{shape} [to], da;"
    np.testing.assert_array_equal(run_tensor(text, memory, operands, group=group), expected)


def fails(body: str, kind: str) -> None:
    text = kernel(body.replace("BASE", ".shared .b32 at; .reg .b32 place, base; mov.u32 place, at;"))
    with pytest.raises(EmulationFault) as raised:
        run_ptx(text, [], block=128)
    assert raised.value.kind == kind


def test_memory_that_is_not_allocated_is_not_loaded() -> None:
    fails("BASE tcgen05.ld.sync.aligned.32x32b.x1.b32 {base}, [place];", "tensor memory")


def test_a_warp_loads_its_own_lanes_only() -> None:
    fails(
        "BASE .reg .pred first; setp.lt.u32 first, %tid.x, 32;"
        "@first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 32; bar.sync 0;"
        "ld.shared.b32 base, [place]; tcgen05.ld.sync.aligned.32x32b.x1.b32 {base}, [base];",
        "tensor memory",
    )


def test_nothing_is_allocated_after_the_permit_is_gone() -> None:
    fails(
        "BASE .reg .pred first; setp.lt.u32 first, %tid.x, 32; @!first bra END;"
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 32; END:",
        "tensor memory",
    )


def test_a_block_gives_back_what_it_has_allocated() -> None:
    fails(
        "BASE .reg .pred first; setp.lt.u32 first, %tid.x, 32;"
        "@first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 64;",
        "tensor memory",
    )
