"""wgmma: descriptors with every swizzle, both majors, all types, A in registers, signs, scale-d."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from precast.emulator import EmulationFault
from tests.helpers.emulator import kernel, run_ptx
from tests.helpers.emulator.operands import Operand, copy_to_shared, descriptor, operand
from tests.helpers.emulator.registers import Array, codes, declare, names, small_values, vector

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_IMAGE = 64 * 1024
_THREADS = 128


def spread_d(matrix: Array, element: str) -> Array:
    """Accumulators of four warps: (registers, 128)."""
    rows, columns = matrix.shape
    bits = codes(matrix, element)
    registers = columns // (4 if element == "f16" else 2)
    out = np.zeros((registers, 128), np.uint32)
    for row in range(rows):
        for column in range(columns):
            thread = row // 16 * 32 + row % 8 * 4 + column % 8 // 2
            index = column // 8 * 4 + row % 16 // 8 * 2 + column % 2
            register, shift = (index // 2, index % 2 * 16) if element == "f16" else (index, 0)
            out[register, thread] |= np.uint32(bits[row, column] << np.uint64(shift))
    return out


def spread_a(matrix: Array, element: str) -> Array:
    """A in registers: (4, 128)."""
    each = 32 // _BITS[element]
    bits = codes(matrix, element)
    out = np.zeros((4, 128), np.uint32)
    for row in range(64):
        for k in range(matrix.shape[1]):
            thread = row // 16 * 32 + row % 8 * 4 + k // each % 4
            register = row % 16 // 8 + 2 * (k // (4 * each))
            out[register, thread] |= np.uint32(bits[row, k] << np.uint64(k % each * _BITS[element]))
    return out


def by_thread(text: str) -> str:
    """Loads and stores of (registers, 128) instead of (registers, 32)."""
    return text.replace("%laneid", "%tid.x")


def move(what: str, registers: list[str], pointer: str) -> str:
    """Registers of 128 threads."""
    lines = ["{ .reg .b64 place; .reg .b32 thread; mov.u32 thread, %tid.x;"]
    lines.append(f"mul.wide.u32 place, thread, 4; add.u64 place, place, {pointer};")
    for index, name in enumerate(registers):
        address = f"[place+{index * 512}]"
        lines.append(f"ld.global.b32 {name}, {address};" if what == "ld" else f"st.global.b32 {address}, {name};")
    return "\n".join([*lines, "}"])


def run(
    shape: str, tail: str, a: Operand | Array, b: Operand, c: Array, *, fence: bool = True, **options: Any
) -> Array:
    """The accumulators after one product."""
    d = names("d", len(c))
    body = [
        f".shared .align 1024 .b8 left[{_IMAGE}]; .shared .align 1024 .b8 right[{_IMAGE}];",
        f".reg .b64 da, db; {declare(d)}",
    ]
    body.append(copy_to_shared("right", "in_b", _IMAGE, _THREADS))
    body.append(descriptor("db", "right", f"{b.wgmma():#x}", b.start))
    left = "da"
    if isinstance(a, Operand):
        body.append(copy_to_shared("left", "in_a", _IMAGE, _THREADS))
        body.append(descriptor("da", "left", f"{a.wgmma():#x}", a.start))
    else:
        held = names("a", 4)
        body += [declare(held), move("ld", held, "in_a")]
        left = vector(held)
    body += [move("ld", d, "in_c"), "fence.proxy.async.shared::cta; bar.sync 0;", "wgmma.fence.sync.aligned;" * fence]
    body.append(f"wgmma.mma_async.sync.aligned.{shape} {vector(d)}, {left}, db, {tail};")
    body += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", move("st", d, "out")]
    out = np.zeros_like(c)
    text = kernel("\n".join(body), "u64 in_a, u64 in_b, u64 in_c, u64 out", target="sm_90a")
    image = a.image if isinstance(a, Operand) else a
    run_ptx(text, [image, b.image, c, out], block=_THREADS, read_only=(0, 1, 2), **options)
    return out


def matrices(n: int, k: int, a: str, b: str) -> tuple[Array, Array, Array]:
    """Random A (64 x k), B (n x k) and C (64 x n)."""
    generator = np.random.default_rng(n + k)
    return small_values(generator, (64, k), a), small_values(generator, (n, k), b), small_values(generator, (64, n))


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("a_major", ["k", "m"])
@pytest.mark.parametrize("b_major", ["k", "n"])
@pytest.mark.parametrize("n", [8, 128])
def test_operands_are_read_by_their_descriptors(swizzle: str, a_major: str, b_major: str, n: int) -> None:
    if b_major == "n" and swizzle != "none" and n == 8:
        n = {"32B": 16, "64B": 32, "128B": 64}[swizzle]
    a, b, c = matrices(n, 16, "bf16", "bf16")
    left = operand(codes(a, "bf16"), 16, swizzle, mn_major=a_major == "m")
    right = operand(codes(b, "bf16"), 16, swizzle, mn_major=b_major == "n")
    tail = f"1, 1, 1, {int(a_major == 'm')}, {int(b_major == 'n')}"
    got = run(f"m64n{n}k16.f32.bf16.bf16", tail, left, right, spread_d(c, "f32"))
    np.testing.assert_array_equal(got, spread_d(a @ b.T + c, "f32"))


@pytest.mark.parametrize("chunk", [2, 4, 6])
def test_a_step_along_k_begins_inside_a_row(chunk: int) -> None:
    a, b, c = matrices(64, 16, "f16", "f16")
    left = operand(codes(a, "f16"), 16, "128B", mn_major=False, first_chunk=chunk)
    right = operand(codes(b, "f16"), 16, "128B", mn_major=False, first_chunk=chunk)
    got = run("m64n64k16.f32.f16.f16", "1, 1, 1, 0, 0", left, right, spread_d(c, "f32"))
    np.testing.assert_array_equal(got, spread_d(a @ b.T + c, "f32"))


@pytest.mark.parametrize(
    ("d", "a", "b"),
    [
        ("f32", "f16", "f16"),
        ("f16", "f16", "f16"),
        ("f32", "tf32", "tf32"),
        ("f32", "e4m3", "e5m2"),
        ("f16", "e5m2", "e4m3"),
        ("s32", "s8", "u8"),
        ("s32", "u8", "s8"),
    ],
)
@pytest.mark.parametrize("in_registers", [False, True])
def test_all_types(d: str, a: str, b: str, in_registers: bool) -> None:
    n, k = 32, 256 // _BITS[a]
    left, right, c = matrices(n, k, a, b)
    operand_a = spread_a(left, a) if in_registers else operand(codes(left, a), _BITS[a], "128B", mn_major=False)
    operand_b = operand(codes(right, b), _BITS[b], "64B", mn_major=False)
    extra = "" if d == "s32" else ", 1, 1" + (", 0" * (1 if in_registers else 2) if _BITS[a] == 16 else "")
    got = run(f"m64n{n}k{k}.{d}.{a}.{b}", f"1{extra}", operand_a, operand_b, spread_d(c, d))
    np.testing.assert_array_equal(got, spread_d(left @ right.T + c, d))


def test_signs_and_scale_d() -> None:
    a, b, c = matrices(16, 16, "f16", "f16")
    left, right = (operand(codes(each, "f16"), 16, "32B", mn_major=False) for each in (a, b))
    negated = run("m64n16k16.f32.f16.f16", "1, -1, 1, 0, 0", left, right, spread_d(c, "f32"))
    np.testing.assert_array_equal(negated, spread_d(c - a @ b.T, "f32"))
    both = run("m64n16k16.f32.f16.f16", "0, -1, -1, 0, 0", left, right, spread_d(c, "f32"))
    np.testing.assert_array_equal(both & 0x7FFFFFFF, spread_d(a @ b.T, "f32") & 0x7FFFFFFF)


def test_with_a_seed_the_result_is_there_after_the_wait() -> None:
    a, b, c = matrices(16, 16, "f16", "f16")
    left, right = (operand(codes(each, "f16"), 16, "32B", mn_major=False) for each in (a, b))
    for seed in range(1, 4):
        got = run("m64n16k16.f32.f16.f16", "1, 1, 1, 0, 0", left, right, spread_d(c, "f32"), seed=seed, delay=50)
        np.testing.assert_array_equal(got, spread_d(a @ b.T + c, "f32"))


def test_the_first_product_of_a_warp_needs_a_fence() -> None:
    a, b, c = matrices(16, 16, "f16", "f16")
    left, right = (operand(codes(each, "f16"), 16, "32B", mn_major=False) for each in (a, b))
    with pytest.raises(EmulationFault, match=r"wgmma\.fence"):
        run("m64n16k16.f32.f16.f16", "1, 1, 1, 0, 0", left, right, spread_d(c, "f32"), fence=False)
