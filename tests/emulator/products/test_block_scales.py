"""Products with block scales: where the scales are in tensor memory, and which bytes a vector of them is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.emulator.products import lay_out, put_d
from tests.helpers.emulator.registers import Array, small_values
from tests.helpers.emulator.tensor_memory import random_memory, run_tensor

_A, _B = 416, 448  # columns of the scales
_FORMATS = {  # K, type of elements, bits of the scales' format, how many elements share a scale
    "mxf8f6f4": (32, "e4m3", 1),
    "mxf4": (64, "e2m1", 1),
    "mxf4nvf4": (64, "e2m1", 0),
}


def scale_codes(exponents: Array, ue8m0: int) -> Array:
    """The bytes of powers of two."""
    return (exponents + 127 if ue8m0 else (exponents + 7) << 3).astype(np.uint32)


def put_scales(memory: Array, rows: Array, column: int, first: int) -> None:
    """Row r in lane r % 32 of each of the four parts, column r / 32, from byte ``first`` on."""
    memory[:, :, column : column + -(-len(rows) // 32)] = 0
    for row, scales in enumerate(rows):
        for part in range(4):
            for index, code in enumerate(scales):
                memory[..., part * 32 + row % 32, column + row // 32] |= np.uint32(code) << np.uint32(
                    8 * (first + index)
                )


def describe(kind: str, m: int, n: int, ue8m0: int, first: int) -> int:
    element = 1 if kind != "mxf8f6f4" else 0
    return first << 4 | element << 7 | element << 10 | n >> 3 << 17 | ue8m0 << 23 | m >> 4 << 24 | first << 29


@pytest.mark.parametrize(
    ("kind", "suffix", "block", "first", "ue8m0"),
    [
        ("mxf8f6f4", ".block32", 32, 0, 1),
        ("mxf8f6f4", ".scale_vec::1X", 32, 3, 1),
        ("mxf8f6f4", "", 32, 2, 1),
        ("mxf4", ".block32", 32, 2, 1),
        ("mxf4nvf4", ".block16", 16, 0, 0),
        ("mxf4nvf4", ".scale_vec::4X", 16, 0, 1),
        ("mxf4nvf4", ".scale_vec::2X", 32, 0, 1),
    ],
)
@pytest.mark.parametrize(("m", "n", "group"), [(128, 64, 1), (256, 192, 2), (128, 64, 2)])
def test_scales_are_those_of_their_rows_and_blocks(
    kind: str, suffix: str, block: int, first: int, ue8m0: int, m: int, n: int, group: int
) -> None:
    k, element, _ = _FORMATS[kind]
    generator = np.random.default_rng(m + n)
    a, b = small_values(generator, (m, k)), small_values(generator, (n, k))
    exponents_a, exponents_b = (generator.integers(-2, 3, (rows, k // block)) for rows in (m, n))
    scaled_a, scaled_b = a * 2.0 ** exponents_a.repeat(block, 1), b * 2.0 ** exponents_b.repeat(block, 1)
    memory = random_memory(group)
    rows = m // group
    for index in range(group):
        one = memory[index : index + 1]
        put_scales(one, scale_codes(exponents_a[index * rows : (index + 1) * rows], ue8m0), _A, first)
        if rows == 64:  # two parts have one half of N, two the other
            for half in range(2):
                part = one.copy()
                put_scales(part, scale_codes(exponents_b[half * n // 2 : (half + 1) * n // 2], ue8m0), _B, first)
                one[:, half * 64 : half * 64 + 64, _B : _B + 8] = part[:, half * 64 : half * 64 + 64, _B : _B + 8]
        else:
            put_scales(one, scale_codes(exponents_b, ue8m0), _B, first)
    expected = memory.copy()
    put_d(expected, scaled_a @ scaled_b.T, group, "f32", column=64)
    text = f"""
.reg .b32 d, about, sa, sb; .reg .pred never; setp.ne.u32 never, 0, 0;
add.u32 d, base, 64; add.u32 sa, base, {_A}; add.u32 sb, base, {_B};
mov.u32 about, {describe(kind, m, n, ue8m0, first):#x};
tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{suffix} [d], da, db, about, [sa], [sb], never;
"""
    padded = kind == "mxf8f6f4"
    operands = (lay_out(each, element, group, padded=padded and element != "e4m3") for each in (a, b))
    got = run_tensor(text, memory, *operands, group=group)
    np.testing.assert_array_equal(got, expected)
