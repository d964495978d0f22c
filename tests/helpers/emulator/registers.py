"""PTX that moves registers of a warp to and from arrays of shape (registers, lanes)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # of numpy


def load_registers(names: list[str], pointer: str, *, bits: int = 32) -> str:
    """Load register i of lane l from element [i][l] of an array."""
    return _lines("ld", names, pointer, bits)


def store_registers(names: list[str], pointer: str, *, bits: int = 32) -> str:
    """Store them likewise."""
    return _lines("st", names, pointer, bits)


def _lines(what: str, names: list[str], pointer: str, bits: int) -> str:
    size = bits // 8
    lines = [
        "{ .reg .b32 lane; .reg .b64 place; mov.u32 lane, %laneid;",
        f"mul.wide.u32 place, lane, {size}; add.u64 place, place, {pointer};",
    ]
    for index, name in enumerate(names):
        address = f"[place+{index * 32 * size}]"
        lines.append(
            f"ld.global.b{bits} {name}, {address};" if what == "ld" else f"st.global.b{bits} {address}, {name};"
        )
    return "\n".join([*lines, "}"])


def declare(names: list[str], *, bits: int = 32) -> str:
    """Declarations of registers."""
    return f".reg .b{bits} {', '.join(names)};" if names else ""


def names(prefix: str, count: int) -> list[str]:
    """Names of registers: a0, a1, ..."""
    return [f"{prefix}{index}" for index in range(count)]


def vector(registers: list[str]) -> str:
    """A list in braces."""
    return "{" + ", ".join(registers) + "}"


# Values whose products and sums are exact in every format, and their codes.
_CODES = {
    "e4m3": {0: 0x00, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48, -1: 0xB8, -2: 0xC0, -3: 0xC4, -4: 0xC8},
    "e5m2": {0: 0x00, 1: 0x3C, 2: 0x40, 3: 0x42, 4: 0x44, -1: 0xBC, -2: 0xC0, -3: 0xC2, -4: 0xC4},
    "e2m3": {0: 0x00, 1: 0x08, 2: 0x10, 3: 0x14, 4: 0x18, -1: 0x28, -2: 0x30, -3: 0x34, -4: 0x38},
    "e3m2": {0: 0x00, 1: 0x0C, 2: 0x10, 3: 0x12, 4: 0x14, -1: 0x2C, -2: 0x30, -3: 0x32, -4: 0x34},
    "e2m1": {0: 0x0, 1: 0x2, 2: 0x4, 3: 0x5, 4: 0x6, -1: 0xA, -2: 0xC, -3: 0xD, -4: 0xE},
}


def codes(values: Array, element: str) -> Array:
    """The bits of whole numbers from -4 to 4 (for integers: of any) in a format, as uint64."""
    if element in _CODES:
        table = _CODES[element]
        return np.vectorize(table.__getitem__, otypes=[np.uint64])(values)
    if element == "bf16":
        return values.astype(np.float32).view(np.uint32).astype(np.uint64) >> np.uint64(16)
    if element in ("tf32", "f32"):
        return values.astype(np.float32).view(np.uint32).astype(np.uint64)
    if element == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint64)
    if element == "f64":
        return values.astype(np.float64).view(np.uint64)
    bits = 4 if element in ("s4", "u4") else 8 if element in ("s8", "u8") else 32
    return values.astype(np.int64).view(np.uint64) & np.uint64((1 << bits) - 1)


def small_values(generator: np.random.Generator, shape: tuple[int, ...], element: str = "") -> Array:
    """Random whole numbers that the format holds exactly."""
    low, high = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16)}.get(element, (-4, 5))
    return generator.integers(low, high, shape)
