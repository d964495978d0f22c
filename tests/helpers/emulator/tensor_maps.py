"""Tensor maps as a driver encodes them, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.helpers.emulator.registers import Array

TYPES = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 9,
    "bfloat16": 10, "float4": 11,
}  # fmt: skip
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


def tensor_map(
    tensor: Array,
    box: Sequence[int],
    *,
    kind: str = "",
    sizes: Sequence[int] = (),
    strides: Sequence[int] = (),
    steps: Sequence[int] = (),
    swizzle: str = "none",
    nan: bool = False,
    corners: tuple[Sequence[int], Sequence[int]] | None = None,
    pixels: int = 0,
    shift: int = 0,
) -> Array:
    """The 128 bytes for a numpy array, whose last dimension is the map's first.

    ``box``, ``sizes``, ``strides`` (in bytes, from the second on) and ``steps`` count dimensions as the map does. With
    ``corners`` it is one for im2col: ``box`` has the channels, ``pixels`` how many there are. The tensor begins
    ``shift`` bytes from the array; addresses have 57 bits.
    """
    sizes = sizes or tensor.shape[::-1]
    strides = strides or tensor.strides[::-1][1:]
    steps = steps or [1] * len(sizes)
    words = np.zeros(32, np.uint32)
    address = tensor.ctypes.data + shift & (1 << 57) - 1
    words[0], words[1] = address & 0xFFFFFFFF, address >> 32
    words[2] = len(sizes) - 1 << 4 | TYPES[kind or str(tensor.dtype)] << 7 | SWIZZLES[swizzle] << 13 | nan << 15
    for index, stride in enumerate(strides):
        words[3 + index] = stride // 16 & 0xFFFFFFFF
        words[7] |= stride // 16 >> 32 << 4 * index
    for index, size in enumerate(sizes):
        words[8 + index] = size - 1
        words[13] |= steps[index] - 1 << 3 * index
    words[13] |= box[0] - 1 << 24
    for index, size in enumerate(box[1:]):
        words[14] |= size - 1 << 8 * index
    if corners is not None:
        words[2] |= 1
        bits = {3: 16, 4: 8, 5: 5}[len(sizes)]
        for index, (lower, upper) in enumerate(zip(*corners, strict=True)):
            mask = (1 << bits) - 1
            words[14] |= (lower & mask) << bits * index | (upper & mask) << 16 + bits * index
        words[15] = pixels - 1
    out = np.zeros(128 + 64, np.uint8)
    start = -out.ctypes.data % 64
    out[start : start + 128] = words.view(np.uint8)
    return out[start : start + 128]


def swizzled(rows: Array, swizzle: str) -> Array:
    """Bytes of a box as they lie in shared memory: units of 16 bytes are exchanged within lines of 128."""
    flat = np.ascontiguousarray(rows).view(np.uint8).reshape(-1)
    out = np.empty_like(flat)
    units = 1 << SWIZZLES[swizzle]
    for unit in range(len(flat) // 16):
        line = unit // 8
        place = unit ^ line % units
        out[place * 16 : place * 16 + 16] = flat[unit * 16 : unit * 16 + 16]
    return out
