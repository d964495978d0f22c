"""Products and sums without a rounding modifier are fused as ptxas fuses them."""

from __future__ import annotations

import numpy as np
import pytest

from precast.emulator.ptx.contraction import contracted
from precast.emulator.ptx.reader import read_module
from tests.helpers.emulator import kernel, run_ptx

SMALL = 1 + 2.0**-12  # its square needs 25 bits


def opcodes(body: str) -> list[str]:
    """The opcodes of some statements, fused."""
    text = f".version 8.8\n.target sm_90a\n.entry k() {{ .reg .f32 %f<20>; .reg .pred %p; {body} }}"
    return [getattr(item, "opcode", ":") for item in contracted(read_module(text).functions["k"].body)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mul.f32 %f1, %f2, %f3; add.f32 %f4, %f5, %f1;", ["fma.rn.f32"]),
        ("mul.ftz.f32 %f1, %f2, %f3; add.ftz.f32 %f4, %f5, %f1;", ["fma.rn.ftz.f32"]),
        ("mul.f32 %f1, %f2, %f3; sub.f32 %f4, %f1, %f5;", ["xor.b32", "fma.rn.f32"]),
        ("mul.f32 %f1, %f2, %f3; add.ftz.f32 %f4, %f5, %f1;", ["mul.f32", "add.ftz.f32"]),
        ("mul.rn.f32 %f1, %f2, %f3; add.f32 %f4, %f5, %f1;", ["mul.rn.f32", "add.f32"]),
        ("mul.f32 %f1, %f2, %f3; add.rn.f32 %f4, %f5, %f1;", ["mul.f32", "add.rn.f32"]),
        ("mul.f32 %f1, %f2, %f3; L: add.f32 %f4, %f5, %f1;", ["mul.f32", ":", "add.f32"]),
        ("mul.f32 %f1, %f2, %f3; mov.f32 %f2, %f9; add.f32 %f4, %f5, %f1;", ["mul.f32", "mov.f32", "add.f32"]),
        ("mul.f32 %f1, %f2, %f3; @%p add.f32 %f4, %f5, %f1;", ["mul.f32", "add.f32"]),
    ],
)
def test_a_product_is_fused_where_nothing_forbids_it(body: str, expected: list[str]) -> None:
    assert opcodes(body) == expected


def test_a_product_with_several_uses_is_fused_with_all_or_none() -> None:
    product = "mul.f32 %f1, %f2, %f3; add.f32 %f4, %f5, %f1; "
    assert opcodes(product + "add.f32 %f6, %f7, %f1;") == ["fma.rn.f32", "fma.rn.f32"]
    assert opcodes(product + "mov.f32 %f6, %f1;") == ["mul.f32", "add.f32", "mov.f32"]


def test_a_product_with_one_use_goes_before_one_with_several() -> None:
    body = "mul.f32 %f1, %f2, %f3; mul.f32 %f4, %f5, %f6; sub.f32 %f7, %f4, %f1; sub.f32 %f8, %f9, %f1;"
    assert opcodes(body) == ["mul.f32", "xor.b32", "fma.rn.f32", "sub.f32"]


@pytest.mark.parametrize(
    ("operands", "expected"), [("%f1, %f3", 2.0**-24), ("%f3, %f1", -(2.0**-24))], ids=["first", "second"]
)
def test_a_difference_keeps_the_bits_of_the_product(operands: str, expected: float) -> None:
    body = f"""
        .reg .f32 %f<5>;
        mov.b32 %f2, {int(np.float32(SMALL).view(np.uint32))};
        mov.b32 %f3, {int(np.float32(1 + 2.0**-11).view(np.uint32))};
        mul.f32 %f1, %f2, %f2;
        sub.f32 %f4, {operands};
        st.global.f32 [out], %f4;
    """
    out = np.zeros(1, np.float32)
    run_ptx(kernel(body, "u64 out"), [out])
    assert out[0] == np.float32(expected)
