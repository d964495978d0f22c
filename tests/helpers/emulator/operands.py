"""Operands of wgmma and tcgen05.mma in shared memory, laid out by the figures of the PTX ISA, and their descriptors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.helpers.emulator.registers import Array

_SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_32B": 128}
_WGMMA = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
_TCGEN05 = {"none": 0, "128B_32B": 1, "128B": 2, "64B": 4, "32B": 6}


@dataclass(frozen=True)
class Operand:
    """Bytes of shared memory from an aligned place on, and a descriptor without its start address."""

    image: Array
    fields: int  # leading and stride distances
    swizzle: str
    start: int  # the start address relative to the image

    def wgmma(self) -> int:
        """The matrix descriptor of wgmma, but for the image's address."""
        return self.fields | _WGMMA[self.swizzle] << 62

    def tcgen05(self) -> int:
        """The matrix descriptor of tcgen05, but for the image's address."""
        return self.fields | 1 << 46 | _TCGEN05[self.swizzle] << 61


def _exchanged(chunk: int, line: int, swizzle: str) -> int:
    """Where a unit of 16 bytes of a line of a tile is: units are exchanged by the line's number."""
    if swizzle == "128B_32B":  # pairs of units, four lines
        return (chunk // 2 ^ line % 4) * 2 + chunk % 2
    by = {"none": 0, "32B": line // 4 % 2, "64B": line // 2 % 4, "128B": line % 8}[swizzle]
    return chunk ^ by


def operand(
    codes: Array, bits: int, swizzle: str, *, mn_major: bool, first_chunk: int = 0, padded: bool = False
) -> Operand:
    """Lay out a matrix.

    Parameters
    ----------
    codes
        The elements' bits, rows (m or n) by k.
    bits
        Of an element.
    first_chunk
        Where in its rows of 32, 64 or 128 bytes a K-major matrix begins, in units of 16 bytes.
    padded
        Whether 16 elements take 16 bytes.
    """
    span = _SPANS[swizzle]
    rows, depth = codes.shape
    each = 16 if padded else 128 // bits
    lines_in_tile = 4 if swizzle == "128B_32B" else 8
    lines, along = (depth, rows) if mn_major else (rows, depth)
    chunks = -(-along // each)
    if swizzle == "none":  # core matrices of 8 lines side by side, then the next ones
        leading, stride = (128 * chunks + 256, 128) if mn_major else (128, 128 * chunks + 384)
    elif mn_major:
        stride = lines_in_tile * span
        leading = stride * -(-lines // lines_in_tile)
    else:
        leading, stride = 16, 8 * span + 0
    image = np.zeros(64 * 1024, np.uint8)
    for row in range(rows):
        for k in range(depth):
            line, place = (k, row) if mn_major else (row, k)
            chunk = place // each + (0 if mn_major or swizzle == "none" else first_chunk)
            if swizzle == "none":
                at = line % 8 * 16
                at += line // 8 * leading + chunk * stride if mn_major else line // 8 * stride + chunk * leading
            else:
                inside = _exchanged(chunk % (span // 16), line % lines_in_tile, swizzle) * 16
                at = line % lines_in_tile * span + line // lines_in_tile * stride + inside
                at += chunk // (span // 16) * leading if mn_major else 0
            _put(image, at, place % each * bits, bits, int(codes[row, k]))
    return Operand(image, leading >> 4 << 16 | stride >> 4 << 32, swizzle, first_chunk * 16)


def _put(image: Array, at: int, bit: int, bits: int, code: int) -> None:
    at, bit = at + bit // 8, bit % 8
    size = (bit + bits + 7) // 8
    word = int.from_bytes(image[at : at + size].tobytes(), "little") | code << bit
    image[at : at + size] = np.frombuffer(word.to_bytes(size, "little"), np.uint8)


def copy_to_shared(symbol: str, pointer: str, size: int, threads: int) -> str:
    """Copy bytes from global to shared memory, by all threads of a block of one dimension."""
    return f"""
{{ .reg .b32 place, at, word; .reg .b64 from; .reg .pred more;
mov.u32 at, %tid.x; shl.b32 place, at, 2; mul.wide.u32 from, place, 1; add.u64 from, from, {pointer};
mov.u32 at, {symbol}; add.u32 at, at, place;
COPY: ld.global.b32 word, [from]; st.shared.b32 [at], word;
add.u64 from, from, {threads * 4}; add.u32 at, at, {threads * 4}; add.u32 place, place, {threads * 4};
setp.lt.u32 more, place, {size}; @more bra COPY; }}
"""


def descriptor(register: str, symbol: str, fields: str, start: int) -> str:
    """Compute a descriptor: the fields with the address of a variable of shared memory."""
    return f"""
{{ .reg .b32 at; .reg .b64 wide; mov.u32 at, {symbol}; add.u32 at, at, {start}; and.b32 at, at, 0x3ffff;
shr.u32 at, at, 4; cvt.u64.u32 wide, at; or.b64 {register}, wide, {fields}; }}
"""
