"""Floats: rounding, subnormal numbers, NaNs and signed zeros, compared with exact fractions."""

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.emulator import each

NAN32 = 0x7FFFFFFF
BITS32 = [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000, 0x3F800001]
BITS32 += [0x40490FDB, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC01234, 0x33800000, 0x4B800001]
MODES = ["rn", "rz", "rm", "rp"]


def real(bits: int) -> float:
    """The float32 with these bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def rounded(value: Fraction, mode: str, mantissa: int = 23, bias: int = 127, negative_zero: bool = False) -> int:
    """The bits of the float that an exact value is rounded to."""
    top = bias + 1 - 2 + bias + 1  # of the exponent field
    sign = value < 0 or (value == 0 and negative_zero)
    width = mantissa + (2 * bias + 1).bit_length()
    mark = 1 << width if sign else 0
    magnitude = abs(value)
    if magnitude == 0:
        return mark
    exponent = max(math.floor(math.log2(magnitude)) - 2, 1 - bias)
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - mantissa)
    steps, rest = divmod(magnitude, unit)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and steps % 2),
        "rz": False,
        "rm": rest and sign,
        "rp": rest and not sign,
    }
    steps += bool(up[mode])
    code = int(steps) + ((exponent + bias - 1) << mantissa if steps >> mantissa else 0)
    if exponent > 1 - bias:
        code = ((exponent + bias - 1) << mantissa) + int(steps)
    largest = (2 * bias + 1) << mantissa
    if code >= largest:
        away = mode == "rn" or (mode == "rp" and not sign) or (mode == "rm" and sign)
        code = largest if away else largest - 1
    assert top
    return mark | code


def exact(a: float, b: float, c: float, name: str) -> Fraction:
    """The exact result of finite operands."""
    x, y, z = Fraction(a), Fraction(b), Fraction(c)
    return {"add": x + y, "sub": x - y, "mul": x * y, "fma": x * y + z}[name]


finite = st.integers(0, 2**32 - 1).filter(lambda v: v & 0x7F800000 != 0x7F800000)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=32), st.sampled_from(MODES))
def test_float32_rounds_once_in_each_mode(rows: list[tuple[int, int, int]], mode: str) -> None:
    """Sums, differences, products and fused products of finite numbers."""
    rows = rows + [(a, a ^ 0x80000001, c) for a, _, c in rows if (a ^ 1) & 0x7F800000 != 0x7F800000]
    columns = [np.array([row[i] for row in rows], np.uint32) for i in range(3)]
    for name, operands in (("add", "{a}, {b}"), ("sub", "{a}, {b}"), ("mul", "{a}, {b}"), ("fma", "{a}, {b}, {c}")):
        out = each(f"{name}.{mode}.f32 {{d}}, {operands};", "uint32", *columns)
        for row, bits in zip(rows, out.tolist(), strict=True):
            value = exact(real(row[0]), real(row[1]), real(row[2]), name)
            if value == 0:
                assert bits & 0x7FFFFFFF == 0
            else:
                assert bits == rounded(value, mode), (name, mode, [hex(v) for v in row])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 0xFFFF)] * 3), min_size=1, max_size=64), st.sampled_from(["f16", "bf16"]))
def test_halves_round_once(rows: list[tuple[int, int, int]], kind: str) -> None:
    """Sums, products and fused products of float16 and bfloat16 are exact, then rounded; two at once give the same."""
    mantissa, bias = (10, 15) if kind == "f16" else (7, 127)
    columns = [np.array([row[i] for row in rows], np.uint16) for i in range(3)]

    def value(bits: int) -> float:
        return float(np.uint16(bits).view(np.float16)) if kind == "f16" else real(bits << 16)

    for name, operands in (("add", "{a}, {b}"), ("mul", "{a}, {b}"), ("fma.rn", "{a}, {b}, {c}")):
        out = each(f"{name}.{kind} {{d}}, {operands};", "uint16", *columns)
        for row, bits in zip(rows, out.tolist(), strict=True):
            a, b, c = map(value, row)
            if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
                continue
            total = exact(a, b, c, name[:3])
            expected = rounded(total, "rn", mantissa, bias)
            assert bits == expected or total == 0 == bits & 0x7FFF, (name, [hex(v) for v in row], hex(bits))
        pairs = [column.astype(np.uint32) << 16 | column[::-1] for column in columns]
        both = each(f"{name}.{kind}x2 {{d}}, {operands};", "uint32", *pairs)
        assert (both >> 16 == out).all() and (both & 0xFFFF == out[::-1]).all()


def test_nans_are_canonical_and_infinities_follow_the_rules() -> None:
    """Any NaN, inf - inf and 0 * inf give 0x7fffffff."""
    a = np.array([0x7FC00001, 0x7F800000, 0, 0x7F800000], np.uint32)
    b = np.array([0x3F800000, 0xFF800000, 0x7F800000, 0x3F800000], np.uint32)
    assert each("add.f32 {d}, {a}, {b};", "uint32", a, b).tolist() == [NAN32, NAN32, 0x7F800000, 0x7F800000]
    assert each("mul.f32 {d}, {a}, {b};", "uint32", a, b).tolist() == [NAN32, 0xFF800000, NAN32, 0x7F800000]


def test_ftz_flushes_operands_and_results_and_keeps_signs() -> None:
    """Subnormal numbers become zeros of their sign; .sat limits, and a NaN becomes 0."""
    tiny, negative = 0x00000005, 0x80000005
    a, b = np.array([tiny, negative, 0x00800000], np.uint32), np.array([0, 0x80000000, 0x80800001], np.uint32)
    assert each("add.ftz.f32 {d}, {a}, {b};", "uint32", a, b).tolist() == [0, 0x80000000, 0x80000000]
    assert each("add.f32 {d}, {a}, {b};", "uint32", a, b).tolist() == [tiny, negative, 0x80000001]
    values = np.array([0xBF800000, 0x3F000000, 0x40000000, 0x7FC00000], np.uint32)
    zero = np.zeros(4, np.uint32)
    assert each("add.sat.f32 {d}, {a}, {b};", "uint32", values, zero).tolist() == [0, 0x3F000000, 0x3F800000, 0]


def test_pairs_of_float32_are_two_float32() -> None:
    """``.f32x2`` equals each half."""
    random = np.random.default_rng(3)
    halves = random.standard_normal((3, 100, 2)).astype(np.float32)
    halves[0, :4] = np.array(BITS32[:8], np.uint32).view(np.float32).reshape(4, 2)
    a, b, c = (np.ascontiguousarray(h).view(np.uint64).ravel() for h in halves)
    for name, f in (("add", halves[0] + halves[1]), ("mul", halves[0] * halves[1]), ("sub", halves[0] - halves[1])):
        out = each(f"{name}.f32x2 {{d}}, {{a}}, {{b}};", "uint64", a, b)
        assert (out.view(np.float32).reshape(-1, 2) == f).all()
    fused = each("fma.rn.f32x2 {d}, {a}, {b}, {c};", "uint64", a, b, c).view(np.uint32)
    words = [np.ascontiguousarray(h).view(np.uint32).ravel() for h in halves]
    assert (fused == each("fma.rn.f32 {d}, {a}, {b}, {c};", "uint32", *words)).all()


def smaller(a: float, b: float) -> float:
    """As min has it: -0 before +0, a NaN is passed over."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min((a, math.copysign(1, a)), (b, math.copysign(1, b)))[0]


def test_the_smaller_and_the_larger() -> None:
    """All pairs of edges, with .NaN and without, and .xorsign.abs."""
    a = np.array([x for x in BITS32 for _ in BITS32], np.uint32)
    b = np.array([y for _ in BITS32 for y in BITS32], np.uint32)
    pairs = [(real(int(x)), real(int(y))) for x, y in zip(a, b, strict=True)]
    for name, sign in (("min", 1), ("max", -1)):
        out = each(f"{name}.f32 {{d}}, {{a}}, {{b}};", "uint32", a, b)
        strict = each(f"{name}.NaN.f32 {{d}}, {{a}}, {{b}};", "uint32", a, b)
        xor = each(f"{name}.xorsign.abs.f32 {{d}}, {{a}}, {{b}};", "uint32", a, b)
        for (x, y), bits, nan_bits, xor_bits in zip(pairs, out.tolist(), strict.tolist(), xor.tolist(), strict=True):
            expected = sign * smaller(sign * x, sign * y)
            both = math.isnan(x) and math.isnan(y)
            assert bits == (NAN32 if both else int(np.float32(expected).view(np.uint32)))
            assert nan_bits == (NAN32 if math.isnan(x) or math.isnan(y) else bits)
            if not (math.isnan(x) or math.isnan(y)):
                magnitude = sign * min(sign * abs(x), sign * abs(y))
                minus = (math.copysign(1, x) < 0) != (math.copysign(1, y) < 0)
                assert xor_bits == int(np.float32(magnitude).view(np.uint32)) | (0x80000000 if minus else 0)
    three = each(
        "max.f32 {d}, {a}, {b}, {c};", "float32", *(np.float32([1, 5, 2])[[i, i - 1, i - 2]] for i in range(3))
    )
    assert three.tolist() == [5, 5, 5]


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a < b or a > b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "equ": lambda a, b: not (a < b or a > b),
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: not a >= b,
    "geu": lambda a, b: not a < b,
    "num": lambda a, b: not (math.isnan(a) or math.isnan(b)),
    "nan": lambda a, b: math.isnan(a) or math.isnan(b),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_nans(name: str) -> None:
    """Ordered ones are false, unordered ones true."""
    a = np.array([x for x in BITS32 for _ in BITS32], np.uint32)
    b = np.array([y for _ in BITS32 for y in BITS32], np.uint32)
    out = each(f"setp.{name}.f32 %p0, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p0;", "uint32", a, b)
    expected = [COMPARISONS[name](real(int(x)), real(int(y))) for x, y in zip(a, b, strict=True)]
    assert out.tolist() == expected
    halves = [(x >> 16).astype(np.uint16) for x in (a, b)]
    out = each(f"setp.{name}.bf16 %p0, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p0;", "uint32", *halves)
    expected = [COMPARISONS[name](real(int(x) << 16), real(int(y) << 16)) for x, y in zip(*halves, strict=True)]
    assert out.tolist() == expected


def test_a_comparison_joins_a_predicate_and_gives_its_complement() -> None:
    """``setp.lt.and p|q``: both are joined with the third operand, which may be negated."""
    a, b = np.array([1, 2, 3, 4], np.int32), np.array([2, 2, 2, 9], np.int32)
    statement = "setp.gt.s32 %p3, {a}, 1; setp.lt.and.s32 %p1|%p2, {a}, {b}, !%p3; selp.b32 %r40, 1, 0, %p1; "
    statement += "selp.b32 %r41, 2, 0, %p2; or.b32 {d}, %r40, %r41;"
    assert each(statement, "uint32", a, b).tolist() == [1, 0, 0, 0]
    out = each("set.lt.f32.s32 {d}, {a}, {b};", "float32", a, b)
    assert out.tolist() == [1, 0, 0, 1]


def test_selection_by_a_sign() -> None:
    """``slct``: a negative zero is not negative, a NaN is."""
    c = np.array([0.0, -0.0, -1.0, math.nan, 2.0], np.float32)
    a, b = np.full(5, 10, np.uint32), np.full(5, 20, np.uint32)
    assert each("slct.b32.f32 {d}, {a}, {b}, {c};", "uint32", a, b, c).tolist() == [10, 10, 20, 20, 10]


def test_divisions_and_roots_round_once() -> None:
    """``div``, ``rcp`` and ``sqrt`` in all modes, of float32 and float64."""
    random = np.random.default_rng(5)
    a, b = (np.abs(random.standard_normal(200)).astype(np.float32) + np.float32(1e-3) for _ in range(2))
    for mode in MODES:
        out = each(f"div.{mode}.f32 {{d}}, {{a}}, {{b}};", "uint32", a, b).tolist()
        assert out == [rounded(Fraction(float(x)) / Fraction(float(y)), mode) for x, y in zip(a, b, strict=True)]
        roots = each(f"sqrt.{mode}.f32 {{d}}, {{a}};", "float32", a)
        squares = [Fraction(float(root)) ** 2 - Fraction(float(x)) for root, x in zip(roots, a, strict=True)]
        if mode in ("rz", "rm"):
            assert all(square <= 0 for square in squares)
        if mode == "rp":
            assert all(square >= 0 for square in squares)
    wide = each("div.rn.f64 {d}, {a}, {b};", "float64", a.astype(np.float64), b.astype(np.float64))
    assert (wide == a.astype(np.float64) / b.astype(np.float64)).all()
    assert each("rcp.rn.f32 {d}, {a};", "float32", np.float32([0.0, -0.0, 4.0])).tolist() == [math.inf, -math.inf, 0.25]


def test_float64_arithmetic() -> None:
    """Sums, products, fused products."""
    random = np.random.default_rng(6)
    a, b, c = (random.standard_normal(100) for _ in range(3))
    assert (each("add.f64 {d}, {a}, {b};", "float64", a, b) == a + b).all()
    assert (each("mul.rn.f64 {d}, {a}, {b};", "float64", a, b) == a * b).all()
    fused = each("fma.rn.f64 {d}, {a}, {b}, {c};", "float64", a, b, c)
    expected = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert fused.tolist() == expected


def test_signs_and_classes() -> None:
    """neg, abs, copysign and testp."""
    a = np.array(BITS32, np.uint32)
    assert (each("neg.f32 {d}, {a};", "uint32", a) == a ^ 0x80000000).all()
    assert (each("abs.f32 {d}, {a};", "uint32", a) == a & 0x7FFFFFFF).all()
    b = a[::-1].copy()
    assert (each("copysign.f32 {d}, {a}, {b};", "uint32", a, b) == (a & 0x80000000 | b & 0x7FFFFFFF)).all()
    for which, test in (("finite", math.isfinite), ("notanumber", math.isnan), ("infinite", math.isinf)):
        out = each(f"testp.{which}.f32 %p0, {{a}}; selp.b32 {{d}}, 1, 0, %p0;", "uint32", a)
        assert out.tolist() == [test(real(int(v))) for v in a]
    out = each("testp.subnormal.f32 %p0, {a}; selp.b32 {d}, 1, 0, %p0;", "uint32", a)
    assert out.tolist() == [0 < v & 0x7FFFFFFF < 0x00800000 for v in BITS32]


def test_sums_in_float32_of_shorter_factors() -> None:
    """``fma.rn.f32.bf16`` and ``add.rn.f32.bf16``."""
    random = np.random.default_rng(7)
    a, b = (random.integers(0x3F00, 0x4100, 64).astype(np.uint16) for _ in range(2))
    c = random.standard_normal(64).astype(np.float32)
    wide = [np.array([real(int(v) << 16) for v in x], np.float32) for x in (a, b)]
    out = each("fma.rn.f32.bf16 {d}, {a}, {b}, {c};", "float32", a, b, c)
    assert (out == each("fma.rn.f32 {d}, {a}, {b}, {c};", "float32", *wide, c)).all()
    assert (each("add.rn.f32.bf16 {d}, {a}, {b};", "float32", a, c) == wide[0] + c).all()
