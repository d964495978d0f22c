"""Integer arithmetic and bits, compared with Python's integers."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.emulator import each

EDGES = [0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 100, 255, 0x7F, 0x80, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000]
EDGES += [0xFFFFFFFF, 0x1_0000_0000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x123456789ABCDEF0]


def signed(value: int, bits: int) -> int:
    """The signed number with these bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def typed(values: list[int], kind: str) -> list[int]:
    """The numbers that a type sees."""
    bits = int(kind[1:])
    return [signed(v, bits) if kind[0] == "s" else v & ((1 << bits) - 1) for v in values]


def quotient(a: int, b: int) -> int:
    """Division as C has it; all bits by zero."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, w: a + b,
    "sub": lambda a, b, w: a - b,
    "mul.lo": lambda a, b, w: a * b,
    "mul.hi": lambda a, b, w: a * b >> w,
    "div": lambda a, b, w: quotient(a, b),
    "rem": lambda a, b, w: a if b == 0 else a - b * quotient(a, b),
    "min": lambda a, b, w: min(a, b),
    "max": lambda a, b, w: max(a, b),
}


def pairs(kind: str, extra: list[int]) -> tuple[list[int], list[int]]:
    """All pairs of edges and of further numbers."""
    values = sorted(set(typed(EDGES + extra, kind)))
    return [a for a in values for _ in values], [b for _ in values for b in values]


def packed(values: list[int], bits: int) -> np.ndarray:
    """As an array of unsigned numbers."""
    return np.array([v & ((1 << bits) - 1) for v in values], f"uint{bits}")


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_of_two(name: str, kind: str) -> None:
    """Sums and products wrap; the most negative number by -1 does, too; division by zero sets all bits."""
    bits = int(kind[1:])
    a, b = pairs(kind, [])
    out = each(f"{name}.{kind} {{d}}, {{a}}, {{b}};", f"uint{bits}", packed(a, bits), packed(b, bits))
    assert out.tolist() == packed([BINARY[name](x, y, bits) for x, y in zip(a, b, strict=True)], bits).tolist()


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(kind: str) -> None:
    """``mul.wide`` and ``mad.wide`` give twice the bits."""
    bits = int(kind[1:])
    a, b = pairs(kind, [])
    arrays = packed(a, bits), packed(b, bits)
    out = each(f"mul.wide.{kind} {{d}}, {{a}}, {{b}};", f"uint{2 * bits}", *arrays)
    expected = packed([x * y for x, y in zip(a, b, strict=True)], 2 * bits)
    assert out.tolist() == expected.tolist()
    addend = packed([7 * x for x in a], 2 * bits)
    out = each(f"mad.wide.{kind} {{d}}, {{a}}, {{b}}, {{c}};", f"uint{2 * bits}", *arrays, addend)
    assert out.tolist() == packed([int(x) + int(y) for x, y in zip(expected, addend, strict=True)], 2 * bits).tolist()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 3), min_size=1, max_size=64), st.sampled_from([16, 32, 64]))
def test_logic_of_any_bits(rows: list[tuple[int, int, int]], bits: int) -> None:
    """And, or, xor, not, cnot, mad.lo."""
    a, b, c = (packed([row[i] for row in rows], bits) for i in range(3))
    out = f"uint{bits}"
    assert (each(f"and.b{bits} {{d}}, {{a}}, {{b}};", out, a, b) == (a & b)).all()
    assert (each(f"or.b{bits} {{d}}, {{a}}, {{b}};", out, a, b) == (a | b)).all()
    assert (each(f"xor.b{bits} {{d}}, {{a}}, {{b}};", out, a, b) == (a ^ b)).all()
    assert (each(f"not.b{bits} {{d}}, {{a}};", out, a) == ~a).all()
    assert (each(f"cnot.b{bits} {{d}}, {{a}};", out, a) == (a == 0)).all()
    assert (each(f"mad.lo.u{bits} {{d}}, {{a}}, {{b}}, {{c}};", out, a, b, c) == a * b + c).all()


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "s16", "s32", "s64", "u32"])
def test_shifts_by_the_width_and_more(kind: str) -> None:
    """They leave nothing, or the sign."""
    bits = int(kind[1:])
    values = typed(EDGES, f"{'s' if kind[0] == 's' else 'u'}{bits}")
    a = [v for v in values for _ in range(70)] + values
    by = list(range(70)) * len(values) + [0xFFFFFFFF] * len(values)
    out = each(f"shr.{kind} {{d}}, {{a}}, {{b}};", f"uint{bits}", packed(a, bits), packed(by, 32))
    assert out.tolist() == packed([v >> s if s < bits else -(v < 0) for v, s in zip(a, by, strict=True)], bits).tolist()
    if kind[0] == "b":
        out = each(f"shl.{kind} {{d}}, {{a}}, {{b}};", f"uint{bits}", packed(a, bits), packed(by, 32))
        assert out.tolist() == packed([v << min(s, bits) for v, s in zip(a, by, strict=True)], bits).tolist()


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_fields_of_bits(kind: str) -> None:
    """``bfe`` extends by the sign bit of the field, or of the number where the field ends outside; ``bfi`` inserts."""
    bits = int(kind[1:])
    rows = [
        (v, p, n)
        for v in EDGES
        for p in (0, 1, 4, 31, 32, 40, 63, 64, 255, 256)
        for n in (0, 1, 5, 31, 32, 33, 64, 255)
    ]
    a, p, n = (packed([row[i] for row in rows], bits if i == 0 else 32) for i in range(3))

    def extracted(value: int, position: int, length: int) -> int:
        position, length = position & 0xFF, length & 0xFF
        value &= (1 << bits) - 1
        sign = 0 if kind[0] == "u" or length == 0 else value >> min(position + length - 1, bits - 1) & 1
        result = 0
        for i in range(bits):
            inside = i < length and position + i < bits
            result |= ((value >> (position + i) & 1) if inside else sign) << i
        return result

    out = each(f"bfe.{kind} {{d}}, {{a}}, {{b}}, {{c}};", f"uint{bits}", a, p, n)
    assert out.tolist() == [extracted(*row) for row in rows]
    if kind[0] == "u":
        into = packed([0x5555555555555555] * len(rows), bits)
        out = each(f"bfi.b{bits} {{d}}, {{a}}, {{e}}, {{b}}, {{c}};", f"uint{bits}", a, p, n, into)
        expected = []
        for value, position, length in rows:
            position, length = position & 0xFF, length & 0xFF
            mask = ((1 << length) - 1) << position & ((1 << bits) - 1)
            expected.append((0x5555555555555555 & ((1 << bits) - 1) & ~mask) | (value << position & mask))
        assert out.tolist() == expected


def test_counts_of_bits() -> None:
    """popc, clz, brev, bfind with and without a shift."""
    for bits in (32, 64):
        values = [v & ((1 << bits) - 1) for v in EDGES]
        a = packed(values, bits)
        assert each(f"popc.b{bits} {{d}}, {{a}};", "uint32", a).tolist() == [v.bit_count() for v in values]
        assert each(f"clz.b{bits} {{d}}, {{a}};", "uint32", a).tolist() == [bits - v.bit_length() for v in values]
        reverse = [int(f"{v:0{bits}b}"[::-1], 2) for v in values]
        assert each(f"brev.b{bits} {{d}}, {{a}};", f"uint{bits}", a).tolist() == reverse
        for kind in ("u", "s"):
            top = [(~v & ((1 << bits) - 1) if kind == "s" and v >> (bits - 1) else v).bit_length() - 1 for v in values]
            found = each(f"bfind.{kind}{bits} {{d}}, {{a}};", "int32", a)
            assert found.tolist() == top
            found = each(f"bfind.shiftamt.{kind}{bits} {{d}}, {{a}};", "int32", a)
            assert found.tolist() == [-1 if t < 0 else bits - 1 - t for t in top]


@pytest.mark.parametrize("table", [0x00, 0x80, 0xFE, 0x96, 0x6A, 0xCA, 0xE8, 0xFF, 0x1D])
def test_any_function_of_three_bits(table: int) -> None:
    """``lop3`` looks up each bit."""
    random = np.random.default_rng(table)
    a, b, c = (random.integers(0, 2**32, 100, np.uint32) for _ in range(3))
    out = each(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table:#x};", "uint32", a, b, c)
    expected = np.zeros_like(a)
    for bit in range(8):
        if table >> bit & 1:
            x, y, z = (v if bit >> s & 1 else ~v for v, s in ((a, 2), (b, 1), (c, 0)))
            expected |= x & y & z
    assert (out == expected).all()


def test_bytes_by_selectors_and_modes() -> None:
    """``prmt``: a selector's highest bit spreads a sign; the modes shift."""
    a, b = np.array([0x80312011], np.uint32), np.array([0xF7E6D5C4], np.uint32)

    def of(mode: str, selector: int) -> int:
        return int(each(f"prmt.b32{mode} {{d}}, {{a}}, {{b}}, {selector:#x};", "uint32", a, b)[0])

    assert of("", 0x7654) == 0xF7E6D5C4 and of("", 0x0123) == 0x11203180 and of("", 0x00B4) == 0x1111FFC4
    assert of(".f4e", 1) == 0xC4803120 and of(".b4e", 1) == 0xE6F71120 and of(".rc8", 2) == 0x31313131
    assert of(".ecl", 1) == 0x80312020 and of(".ecr", 1) == 0x20202011 and of(".rc16", 1) == 0x80318031


def test_funnel_shifts() -> None:
    """Clamped at 32, or by 32 bits in a ring."""
    a, b = np.full(40, 0x89ABCDEF, np.uint32), np.full(40, 0x01234567, np.uint32)
    by = np.arange(40, dtype=np.uint32)
    whole = 0x0123456789ABCDEF
    clamped = [min(s, 32) for s in range(40)]
    assert each("shf.l.clamp.b32 {d}, {a}, {b}, {c};", "uint32", a, b, by).tolist() == [
        (whole << s) >> 32 & 0xFFFFFFFF for s in clamped
    ]
    assert each("shf.r.clamp.b32 {d}, {a}, {b}, {c};", "uint32", a, b, by).tolist() == [
        whole >> s & 0xFFFFFFFF for s in clamped
    ]
    assert each("shf.r.wrap.b32 {d}, {a}, {b}, {c};", "uint32", a, b, by).tolist() == [
        whole >> (s & 31) & 0xFFFFFFFF for s in range(40)
    ]


def test_sums_of_products_of_bytes() -> None:
    """``dp4a`` and ``dp2a`` with both signs."""
    random = np.random.default_rng(1)
    a, b, c = (random.integers(0, 2**32, 64, np.uint32) for _ in range(3))
    for x, y in (("u", "u"), ("u", "s"), ("s", "u"), ("s", "s")):
        left, right = a.view(f"{'u' if x == 'u' else ''}int8"), b.view(f"{'u' if y == 'u' else ''}int8")
        total = (left.astype(np.int64) * right.astype(np.int64)).reshape(-1, 4).sum(1)
        out = each(f"dp4a.{x}32.{y}32 {{d}}, {{a}}, {{b}}, {{c}};", "uint32", a, b, c)
        assert (out == (total + c).astype(np.uint32)).all()
        halves = a.view(f"{'u' if x == 'u' else ''}int16").astype(np.int64).reshape(-1, 2)
        total = (halves * right.astype(np.int64).reshape(-1, 4)[:, 2:]).sum(1)
        out = each(f"dp2a.hi.{x}32.{y}32 {{d}}, {{a}}, {{b}}, {{c}};", "uint32", a, b, c)
        assert (out == (total + c).astype(np.uint32)).all()


def test_saturation_and_relu() -> None:
    """``add.sat.s32``, ``max.relu``, ``min.s16x2``."""
    a, b = np.array([2**31 - 1, -(2**31), 5], np.int32), np.array([1, -1, -9], np.int32)
    assert each("add.sat.s32 {d}, {a}, {b};", "int32", a, b).tolist() == [2**31 - 1, -(2**31), -4]
    assert each("sub.sat.s32 {d}, {a}, {b};", "int32", a, -b).tolist() == [2**31 - 1, -(2**31), -4]
    assert each("min.relu.s32 {d}, {a}, {b};", "int32", a, b).tolist() == [1, 0, 0]
    assert each("max.s16x2 {d}, {a}, {b};", "uint32", packed([0x7FFF8000], 32), packed([0x80000001], 32)) == 0x7FFF0001


def test_conversions_between_integers() -> None:
    """They cut off, extend, or saturate."""
    values = packed(EDGES, 64)
    for kind in ("u16", "s16", "u32", "s32"):
        bits = int(kind[1:])
        assert each(f"cvt.{kind}.s64 {{d}}, {{a}};", f"uint{bits}", values).tolist() == packed(EDGES, bits).tolist()
        low, high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        out = each(f"cvt.sat.{kind}.s64 {{d}}, {{a}};", f"uint{bits}", values)
        assert out.tolist() == packed([min(max(signed(v, 64), low), high) for v in EDGES], bits).tolist()
    words = packed(EDGES, 32)
    assert (
        each("cvt.s64.s32 {d}, {a};", "uint64", words).tolist() == packed([signed(v, 32) for v in EDGES], 64).tolist()
    )
    assert each("cvt.u64.u32 {d}, {a};", "uint64", words).tolist() == words.astype(np.uint64).tolist()
    assert each("cvt.s32.s8 {d}, {a};", "uint32", words).tolist() == packed([signed(v, 8) for v in EDGES], 32).tolist()
    assert each("cvt.s8.s32 {d}, {a};", "uint32", words).tolist() == packed([signed(v, 8) for v in EDGES], 32).tolist()


def test_a_carry_goes_from_one_sum_to_the_next() -> None:
    """128 bits by two sums of 64, or four of 32; likewise a borrow, and products."""
    random = np.random.default_rng(4)
    a, b, c, e = (random.integers(0, 2**64, 50, np.uint64) for _ in range(4))
    a[:3], c[:3] = 2**64 - 1, [1, 0, 2**64 - 1]
    for name, sign in (("add", 1), ("sub", -1)):
        high = each(f"{name}.cc.u64 %rd40, {{a}}, {{c}}; {name}c.u64 {{d}}, {{b}}, {{e}};", "uint64", a, b, c, e)
        expected = []
        for x, y, z, w in zip(a.tolist(), b.tolist(), c.tolist(), e.tolist(), strict=True):
            expected.append(((y << 64 | x) + sign * (w << 64 | z)) >> 64 & (2**64 - 1))
        assert high.tolist() == expected
    statement = (
        "mov.b64 {%r40, %r41}, {a}; mov.b64 {%r42, %r43}, {b}; mul.lo.u32 %r44, %r40, %r42; "
        "mul.hi.u32 %r45, %r40, %r42;"
        "mad.lo.cc.u32 %r45, %r40, %r43, %r45; madc.hi.u32 %r46, %r40, %r43, 0; mad.lo.cc.u32 %r45, %r41, %r42, %r45;"
        "madc.hi.cc.u32 %r46, %r41, %r42, %r46; addc.u32 %r47, 0, 0; mad.lo.cc.u32 %r46, %r41, %r43, %r46; "
        "madc.hi.u32 %r47, %r41, %r43, %r47; mov.b64 {d}, {%r46, %r47};"
    )
    high = each(statement, "uint64", a, b)
    assert high.tolist() == [x * y >> 64 for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_two_integers_are_packed_and_saturated() -> None:
    """``cvt.pack.sat``, four bytes by two of them."""
    a, b = np.array([300, -300, 5], np.int32), np.array([-1, 127, -128], np.int32)
    out = each("cvt.pack.sat.s16.s32 {d}, {a}, {b};", "uint32", a * 1000, b)
    assert out.tolist() == [0x7FFFFFFF, 0x8000007F, 0x1388FF80]
    statement = "cvt.pack.sat.u8.s32.b32 %r40, {a}, {b}, 0; cvt.pack.sat.s8.s32.b32 {d}, {a}, {b}, %r40;"
    assert each(statement, "uint32", a, b).tolist() == [0xFF007FFF, 0x007F807F, 0x05000580]
