"""tcgen05.mma: kinds, shapes, groups, operands in tensor memory, masks, and where D's elements are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.emulator.products import lay_out, place_in_d, put_d
from tests.helpers.emulator.registers import codes, small_values
from tests.helpers.emulator.tensor_memory import random_memory, run_tensor

_TYPES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}
_SUMS = {"f16": 0, "f32": 1, "s32": 2}
_DEPTHS = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}


def describe(
    kind: str, m: int, n: int, a: str, b: str, d: str, *, a_major: str = "k", b_major: str = "k", negate: str = ""
) -> int:
    """The instruction descriptor."""
    value = _SUMS[d] << 4 | _TYPES[a] << 7 | _TYPES[b] << 10 | n >> 3 << 17 | m >> 4 << 24
    value |= ("a" in negate) << 13 | ("b" in negate) << 14
    return value | (a_major != "k") << 15 | (b_major != "k") << 16


def issue(kind: str, group: int, description: int, *, a: str = "da", stationary: bool = False, tail: str = "") -> str:
    """The instruction, with D at column 64, which is added to."""
    ws = ".ws" if stationary else ""
    return f"""
.reg .b32 d, about; .reg .pred adds; add.u32 d, base, 64; mov.u32 about, {description:#x}; setp.eq.u32 adds, 0, 0;
tcgen05.mma{ws}.cta_group::{group}.kind::{kind} [d], {a}, db, about, {tail or "adds"};
"""


def check(
    kind: str,
    m: int,
    n: int,
    a: str,
    b: str,
    d: str,
    *,
    group: int = 1,
    swizzle: str = "128B",
    stationary: bool = False,
    **majors: str,
) -> None:
    """One product, with C in D before."""
    k = _DEPTHS[kind]
    generator = np.random.default_rng(m + n)
    left, right, c = (
        small_values(generator, (m, k), a),
        small_values(generator, (n, k), b),
        small_values(generator, (m, n)),
    )
    memory = random_memory(group)
    put_d(memory, c, group, d, column=64, stationary=stationary)
    expected = memory.copy()
    put_d(expected, left @ right.T + c, group, d, column=64, stationary=stationary)
    operand_a = lay_out(left, a, group, swizzle, mn_major=majors.get("a_major", "k") != "k")
    operand_b = lay_out(right, b, group, swizzle, mn_major=majors.get("b_major", "k") != "k")
    text = issue(kind, group, describe(kind, m, n, a, b, d, **majors), stationary=stationary)
    got = run_tensor(text, memory, operand_a, operand_b, group=group)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("m", "n", "group", "stationary"),
    [
        (128, 32, 1, False),
        (128, 256, 1, False),
        (64, 8, 1, False),
        (64, 40, 1, False),
        (256, 64, 2, False),
        (128, 64, 2, False),
        (32, 64, 1, True),
        (64, 64, 1, True),
        (128, 64, 1, True),
    ],
)
def test_d_is_laid_out_by_shape_and_group(m: int, n: int, group: int, stationary: bool) -> None:
    check("f16", m, n, "bf16", "bf16", "f32", group=group, stationary=stationary)


@pytest.mark.parametrize(
    ("kind", "a", "b", "d"),
    [
        ("f16", "f16", "f16", "f16"),
        ("f16", "f16", "f16", "f32"),
        ("tf32", "tf32", "tf32", "f32"),
        ("f8f6f4", "e4m3", "e5m2", "f32"),
        ("f8f6f4", "e5m2", "e4m3", "f16"),
        ("f8f6f4", "e2m1", "e4m3", "f32"),
        ("f8f6f4", "e3m2", "e2m3", "f32"),
        ("f8f6f4", "e2m1", "e2m1", "f32"),
        ("i8", "s8", "u8", "s32"),
    ],
)
def test_all_kinds(kind: str, a: str, b: str, d: str) -> None:
    check(kind, 128, 32, a, b, d)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize(("a_major", "b_major"), [("k", "n"), ("m", "k"), ("m", "n")])
def test_majors_and_swizzles(swizzle: str, a_major: str, b_major: str) -> None:
    check("f16", 128, 64, "f16", "f16", "f32", swizzle=swizzle, a_major=a_major, b_major=b_major)


def test_tf32_along_m_and_n_uses_pairs_of_units() -> None:
    check("tf32", 128, 32, "tf32", "tf32", "f32", swizzle="128B_32B", a_major="m", b_major="n")


@pytest.mark.parametrize(("m", "group"), [(128, 1), (64, 1), (256, 2), (128, 2)])
def test_a_in_tensor_memory(m: int, group: int) -> None:
    n, k = 64, 16
    generator = np.random.default_rng(3)
    a, b = small_values(generator, (m, k)), small_values(generator, (n, k))
    memory = random_memory(group)
    bits = codes(a, "bf16").astype(np.uint32)
    words = bits[:, 0::2] | bits[:, 1::2] << np.uint32(16)
    for row in range(m):
        block, lane, _ = place_in_d(m, n, group, False, row, 0)
        copies = (lane, lane + 64) if m == 128 and group == 2 else (lane,)  # each half of N has its own copy
        for copy in copies:
            memory[block, copy, 400 : 400 + k // 2] = words[row]
    expected = memory.copy()
    put_d(expected, a @ b.T, group, "f32", column=64)
    text = ".reg .b32 at; .reg .pred never; add.u32 at, base, 400; setp.ne.u32 never, 0, 0;"
    text += issue("f16", group, describe("f16", m, n, "bf16", "bf16", "f32"), a="[at]", tail="never")
    got = run_tensor(text, memory, (), lay_out(b, "bf16", group), group=group)
    np.testing.assert_array_equal(got, expected)


def test_lanes_that_are_disabled_keep_d() -> None:
    n, k = 32, 16
    generator = np.random.default_rng(4)
    a, b = small_values(generator, (128, k)), small_values(generator, (n, k))
    memory = random_memory()
    product = memory.copy()
    put_d(product, a @ b.T, 1, "f32", column=64)
    masks = generator.integers(0, 1 << 32, 4, np.uint64)
    lane = np.arange(128)
    disabled = (masks[lane // 32] >> (lane % 32).astype(np.uint64) & np.uint64(1)).astype(bool)
    expected = np.where(disabled[None, :, None], memory, product)
    text = ".reg .b32 m<4>; .reg .pred never; setp.ne.u32 never, 0, 0;"
    text += "".join(f"mov.u32 m{i}, {int(mask):#x};" for i, mask in enumerate(masks))
    text += issue("f16", 1, describe("f16", 128, n, "f16", "f16", "f32"), tail="{m0, m1, m2, m3}, never")
    got = run_tensor(text, memory, lay_out(a, "f16", 1), lay_out(b, "f16", 1))
    np.testing.assert_array_equal(got, expected)


def test_d_is_scaled_and_signs_change() -> None:
    n, k = 32, 16
    generator = np.random.default_rng(5)
    a, b, c = small_values(generator, (128, k)), small_values(generator, (n, k)), 8 * small_values(generator, (128, n))
    memory = random_memory()
    put_d(memory, c, 1, "f32", column=64)
    expected = memory.copy()
    put_d(expected, c // 8 - a @ b.T, 1, "f32", column=64)
    text = issue("f16", 1, describe("f16", 128, n, "f16", "f16", "f32", negate="a"), tail="adds, 3")
    got = run_tensor(text, memory, lay_out(a, "f16", 1), lay_out(b, "f16", 1))
    np.testing.assert_array_equal(got, expected)


def test_products_are_right_with_delays() -> None:
    for seed in range(1, 4):
        n, k = 32, 16
        generator = np.random.default_rng(seed)
        a, b = small_values(generator, (256, k)), small_values(generator, (n, k))
        memory = random_memory(2)
        expected = memory.copy()
        put_d(expected, a @ b.T, 2, "f32", column=64)
        text = ".reg .pred never; setp.ne.u32 never, 0, 0;"
        text += issue("f16", 2, describe("f16", 256, n, "f16", "f16", "f32"), tail="never")
        got = run_tensor(text, memory, lay_out(a, "f16", 2), lay_out(b, "f16", 2), group=2, seed=seed, delay=100)
        np.testing.assert_array_equal(got, expected)
