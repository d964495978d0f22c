"""Rows as float8 with a scale for every 128 columns: a block takes a part of one row, lanes of one warp 128 columns."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_tensor

from precast.kernels.own.device import float8
from precast.kernels.own.device.vectors import at
from precast.kernels.own.float8 import BLOCK
from precast.kernels.own.tiles import Tile


class Float8Blocks:
    """The part of a row that a block of threads takes, stored as float8 with scales.

    A vector is as many elements as 16 bytes have in the dtype that is read, so that 16 or 32 lanes in turn share 128
    columns. A width is a multiple of 128, so that they have all of these or none.
    """

    def __init__(self, tile: Tile, width: int, least: float) -> None:
        self.tile = tile
        self.width = width
        self.parts = tile.blocks(width)
        self.lanes = BLOCK // tile.vector
        self.least = least

    @cute.jit
    def grid(self, x: cute.Tensor) -> cutlass.Int32:
        """How many blocks the rows take; no rows still take one, which finds nothing to do."""
        # x.shape[0] would be cut to 32 bits
        return cutlass.max(cutlass.Int32(cute.size(x, mode=[0]) * self.parts), 1)

    @cute.jit
    def position(self) -> Any:
        """The row of this block, and the column of this thread's first vector."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        row, start = self.tile.position(block, self.parts)
        return cutlass.Int64(row), self.tile.first(start, thread)

    @cute.jit
    def store(
        self, values: Any, out: cute.Tensor, scale: cute.Tensor, row: cutlass.Int64, column: cutlass.Int32
    ) -> None:
        """Store a vector as float8, and the scale of 128 columns. All lanes of a warp call it, beyond the width too."""
        largest = cute.arch.warp_reduction(float8.size(values), cute.arch.fmax, threads_in_group=self.lanes)
        divisor = float8.scale_of(largest, self.least)
        if column < self.width:
            float8.store(values * (1.0 / divisor), at(out, row * out.stride[0] + column, self.tile.vector))
            if column % BLOCK == 0:
                scale[column // BLOCK, row] = divisor


def scales(blocks: int, rows: Any) -> Any:
    """A placeholder for scales: those of a block of columns are contiguous, row after row."""
    return make_fake_tensor(cutlass.Float32, (blocks, rows), (cute.sym_int64(), 1), assumed_align=4)
