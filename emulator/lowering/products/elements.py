"""The numbers of element types, as in ``interpreter/tensor/elements.h``."""

from __future__ import annotations

ELEMENTS = {
    name: number
    for number, name in enumerate(
        ("f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "u8", "s8", "u4", "s4", "f64", "ue8m0", "ue4m3")
    )
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e2m3": 6, "e3m2": 6, "e2m1": 4, "u4": 4, "s4": 4, "f64": 64}
INTEGERS = ("u8", "s8", "u4", "s4")
ACCUMULATORS = {"f32": 0, "f16": 1, "s32": 2}


def bits_of(element: str) -> int:
    """The bits of an element.

    >>> bits_of("bf16"), bits_of("e4m3")
    (16, 8)
    """
    return BITS.get(element, 8)
