"""Where the elements of products of tcgen05 are, by the figures of the PTX ISA."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.operands import Operand, operand
from tests.helpers.emulator.registers import Array, codes

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4, "s8": 8, "u8": 8}


def place_in_d(m: int, n: int, group: int, stationary: bool, row: int, column: int) -> tuple[int, int, int]:
    """Block, lane and column of an element of D, as the figures of the layouts A to G show."""
    block, row = row // (m // group), row % (m // group)
    if m // group == 128:
        return block, row, column
    if m // group == 64 and (group == 2 or stationary):
        return block, row + 64 * (column // (n // 2)), column % (n // 2)
    if m == 64:
        return block, row // 16 * 32 + row % 16, column
    return block, row + 32 * (column // (n // 4)), column % (n // 4)


def put_d(memory: Array, matrix: Array, group: int, kind: str, *, column: int, stationary: bool = False) -> None:
    """Put D into tensor memory."""
    bits = codes(matrix, kind)
    rows, columns = matrix.shape
    for i in range(rows):
        for j in range(columns):
            block, lane, at = place_in_d(rows, columns, group, stationary, i, j)
            memory[block, lane, column + at] = bits[i, j]


def halves(matrix: Array, group: int) -> list[Array]:
    """The rows that each block has."""
    return [np.ascontiguousarray(part) for part in np.split(matrix, group)]


def lay_out(
    matrix: Array,
    element: str,
    group: int,
    swizzle: str = "128B",
    *,
    mn_major: bool = False,
    padded: bool | None = None,
) -> list[Operand]:
    """An operand in the shared memory of the blocks."""
    padded = BITS[element] < 8 if padded is None else padded
    return [
        operand(codes(part, element), BITS[element], swizzle, mn_major=mn_major, padded=padded)
        for part in halves(matrix, group)
    ]
