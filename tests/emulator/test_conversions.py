"""Conversions between floats, and between floats and integers."""

import math
import struct
from typing import Any

import numpy as np
import pytest

from tests.helpers.emulator import each

VALUES = [
    0.0,
    -0.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    -2.5,
    0.49999997,
    1e-3,
    127.5,
    128.5,
    255.5,
    256.0,
    -129.0,
    3e9,
    -3e9,
    5e9,
]
VALUES += [
    1e19,
    -1e19,
    2e19,
    math.inf,
    -math.inf,
    65504.0,
    65519.0,
    65520.0,
    1e-8,
    6e-8,
    -6e-8,
    448.0,
    464.0,
    480.0,
    57344.0,
]
VALUES += [0.0625, 0.001953125, 0.0009765625, 0.00097, 6.0, 5.0, 7.5, 28.0, 30.0, 3.14159, 1e38, 1e-40, 2.0**-127]
RANDOM = np.random.default_rng(11)
FLOATS = np.concatenate(
    [np.float32(VALUES), (RANDOM.standard_normal(400) * 10.0 ** RANDOM.integers(-9, 9, 400)).astype(np.float32)]
)


def whole(value: float, mode: str) -> float:
    """The whole number in a direction; ties go to the even one."""
    if not math.isfinite(value):
        return value
    return {
        "rni": float(round(value)),
        "rzi": float(math.trunc(value)),
        "rmi": math.floor(value),
        "rpi": math.ceil(value),
    }[mode]


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_floats_to_integers_saturate(mode: str, kind: str) -> None:
    """What does not fit becomes the nearest that does."""
    bits = int(kind[1:])
    low, high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    size = max(bits, 32)
    out = each(f"cvt.{mode}.{kind}.f32 {{d}}, {{a}};", f"{'u' if kind[0] == 'u' else ''}int{size}", FLOATS)
    expected = [min(max(whole(float(v), mode), low), high) for v in FLOATS]
    assert out.tolist() == [int(min(max(v, low), high)) if math.isfinite(v) else v for v in expected]


def test_a_nan_becomes_zero_or_the_highest_bit() -> None:
    """Of 32 bits 0, of 64 bits the highest."""
    nan = np.float32([math.nan])
    assert each("cvt.rzi.s32.f32 {d}, {a};", "int32", nan).tolist() == [0]
    assert each("cvt.rzi.s64.f32 {d}, {a};", "int64", nan).tolist() == [-(2**63)]


def test_integers_to_floats_round_once() -> None:
    """Also those of 64 bits, to float16 and bfloat16."""
    values = np.array(
        [0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31), 2**53 + 1, 2**62 + 2**38 + 1, 2**63 - 1, -7, 2049, 65519], np.int64
    )
    assert each("cvt.rn.f64.s64 {d}, {a};", "float64", values).tolist() == values.astype(np.float64).tolist()
    out = each("cvt.rn.f32.s64 {d}, {a};", "float32", values)
    assert out.tolist() == [
        struct.unpack("f", struct.pack("f", float(v)))[0] if abs(int(v)) < 2**53 else o
        for v, o in zip(values, out, strict=True)
    ]
    assert out[7] == np.float32(2.0**62 + 2.0**39)  # by way of float64 it would be 2^62
    assert each("cvt.rz.f32.s64 {d}, {a};", "float32", values)[8] == np.float32(2.0**63 - 2.0**39)
    halves = each("cvt.rn.f16.s64 {d}, {a};", "uint16", values).view(np.float16)
    assert halves[10:].tolist() == [2048.0, 65504.0] and halves[8] == math.inf
    assert each("cvt.rn.bf16.u32 {d}, {a};", "uint16", np.uint32([257, 259, 2**32 - 1])).tolist() == [
        0x4380,
        0x4382,
        0x4F80,
    ]


TORCH = {"f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def torch_and(kind: str) -> tuple[Any, Any]:
    """Torch, and its type of this name."""
    torch = pytest.importorskip("torch")
    return torch, getattr(torch, TORCH[kind])


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_float32_to_16_bits_and_back(kind: str) -> None:
    """As torch rounds; two at once have the first above."""
    torch, dtype = torch_and(kind)
    expected = torch.from_numpy(FLOATS).to(dtype)
    out = each(f"cvt.rn.{kind}.f32 {{d}}, {{a}};", "uint16", FLOATS)
    assert (out == expected.view(torch.uint16).numpy()).all()
    two = each(f"cvt.rn.{kind}x2.f32 {{d}}, {{a}}, {{b}};", "uint32", FLOATS, FLOATS[::-1])
    assert (two >> 16 == out).all() and (two & 0xFFFF == out[::-1]).all()
    back = each(f"cvt.f32.{kind} {{d}}, {{a}};", "float32", out)
    assert (back == expected.float().numpy()).all()
    relu = each(f"cvt.rn.relu.{kind}.f32 {{d}}, {{a}};", "uint16", FLOATS)
    assert (relu == np.where(np.signbit(FLOATS), 0, out)).all()
    toward = each(f"cvt.rz.{kind}.f32 {{d}}, {{a}};", "uint16", FLOATS)
    values = torch.from_numpy(toward.view(np.int16)).view(dtype).double().abs().numpy()
    assert (values <= np.abs(FLOATS.astype(np.float64))).all()


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_float32_to_8_bits(kind: str) -> None:
    """Saturated to the largest finite value; the first operand is above."""
    torch, dtype = torch_and(kind)
    largest = torch.finfo(dtype).max
    expected = torch.from_numpy(FLOATS).clamp(-largest, largest).to(dtype).view(torch.uint8).numpy()
    out = each(f"cvt.rn.satfinite.{kind}x2.f32 {{d}}, {{a}}, {{b}};", "uint16", FLOATS, FLOATS[::-1])
    assert (out >> 8 == expected).all() and (out & 0xFF == expected[::-1]).all()
    nan = each(f"cvt.rn.satfinite.{kind}x2.f32 {{d}}, {{a}}, {{a}};", "uint16", np.float32([math.nan]))
    assert nan.tolist() == [0x7F7F]


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_8_bits_to_float16(kind: str) -> None:
    """All codes, exactly."""
    torch, dtype = torch_and(kind)
    codes = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(codes).view(dtype).to(torch.float16).view(torch.uint16).numpy()
    packed = codes.astype(np.uint16) << 8 | codes[::-1]
    out = each(f"cvt.rn.f16x2.{kind}x2 {{d}}, {{a}};", "uint32", packed)
    nan = (expected & 0x7FFF) > 0x7C00
    assert (np.where(nan, 0x7FFF, expected) == out >> 16).all()
    assert (out & 0xFFFF == (out >> 16)[::-1]).all()


def test_4_and_6_bits() -> None:
    """e2m1, e2m3 and e3m2 saturate; a .b8 register takes two codes of 4 bits; ue8m0 rounds as told."""
    values = np.float32([0, 0.25, 0.26, 0.5, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, 7, -0.3, -100, 1.0])
    statement = (
        "{ .reg .b8 byte; cvt.rn.satfinite.e2m1x2.f32 byte, {a}, {b}; mov.b32 {d}, {byte, byte, byte, byte}; "
        "and.b32 {d}, {d}, 255; }"
    )
    codes = [0, 0, 1, 1, 2, 2, 4, 4, 6, 6, 7, 7, 9, 15, 2]
    out = each(statement, "uint32", values, np.zeros_like(values))
    assert (out >> 4).tolist() == codes and (out & 15).tolist() == [0] * len(codes)
    out = each(
        "cvt.rn.satfinite.e3m2x2.f32 {d}, {a}, {b};", "uint16", np.float32([28, 30, 1000, 0.0625]), np.float32([1] * 4)
    )
    assert out.tolist() == [0x1F0C, 0x1F0C, 0x1F0C, 0x010C]
    scales = np.float32([1.0, 1.5, 3.0, 2.0**-127, 1e38, 1.0001])
    out = each("cvt.rp.satfinite.ue8m0x2.f32 {d}, {a}, {b};", "uint16", scales, scales)
    assert (out >> 8).tolist() == [127, 128, 129, 0, 254, 128] and (out >> 8 == out & 0xFF).all()
    out = each("cvt.rn.bf16x2.ue8m0x2 {d}, {a};", "uint32", np.uint16([0x7F80]))
    assert out.tolist() == [0x3F804000]


def test_tf32_keeps_ten_bits() -> None:
    """``rna`` rounds ties away from zero, ``rn`` to even."""
    values = np.uint32([0x3F801000, 0x3F803000, 0x3F800FFF, 0xBF801000])
    assert each("cvt.rna.tf32.f32 {d}, {a};", "uint32", values).tolist() == [
        0x3F802000,
        0x3F804000,
        0x3F800000,
        0xBF802000,
    ]
    assert each("cvt.rn.tf32.f32 {d}, {a};", "uint32", values).tolist() == [
        0x3F800000,
        0x3F804000,
        0x3F800000,
        0xBF800000,
    ]


def test_float64_and_whole_numbers() -> None:
    """To float32 in all directions, and ``cvt.rni.f32.f32``."""
    values = np.float64([1 + 2**-24, 1 + 2**-24 + 2**-50, -(1 + 2**-30), 1e39, 1e-46])
    one = 0x3F800000
    expected = {
        "rn": [one, one + 1, one | 1 << 31, 0x7F800000, 0],
        "rz": [one, one, one | 1 << 31, 0x7F7FFFFF, 0],
        "rp": [one + 1, one + 1, one | 1 << 31, 0x7F800000, 1],
        "rm": [one, one, one + 1 | 1 << 31, 0x7F7FFFFF, 0],
    }
    for mode, bits in expected.items():
        assert each(f"cvt.{mode}.f32.f64 {{d}}, {{a}};", "uint32", values).tolist() == bits
    for mode in ("rni", "rzi", "rmi", "rpi"):
        out = each(f"cvt.{mode}.f32.f32 {{d}}, {{a}};", "float32", FLOATS[:13])
        assert out.tolist() == [whole(float(v), mode) for v in FLOATS[:13]]
    assert each("cvt.sat.f32.f32 {d}, {a};", "float32", np.float32([-2, 0.25, 9, math.nan])).tolist() == [0, 0.25, 1, 0]


def test_parts_of_registers() -> None:
    """``mov`` packs and unpacks; the sink takes nothing; 128 bits are two of 64."""
    a = np.uint64([0x1122334455667788])
    assert each("mov.b64 {%r40, %r41}, {a}; mov.b64 {d}, {%r41, %r40};", "uint64", a).tolist() == [0x5566778811223344]
    assert each("mov.b64 {%rs40, _, _, %rs41}, {a}; mov.b32 {d}, {%rs40, %rs41};", "uint32", a).tolist() == [0x11227788]
    statement = "mov.b128 %q1, {{a}, {b}}; mov.b128 %q2, %q1; mov.b128 {_, {d}}, %q2;"
    assert each(statement, "uint64", a, a + np.uint64(1)).tolist() == [0x1122334455667789]
