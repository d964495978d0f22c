"""``dequantize_fp8`` on the device: a block takes a part of one row; every thread ``unroll`` vectors of 16 bytes."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.device.float8_blocks import scales
from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.rows import matrix
from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.float8 import BLOCK
from precast.kernels.own.tiles import Tile


class Dequantizer:
    """``out = x * scale``, with a scale for each row, or for every 128 columns of it."""

    def __init__(self, tile: Tile, width: int) -> None:
        self.tile = tile
        self.width = width
        self.parts = tile.blocks(width)

    @cute.jit
    def dequantize_fp8(self, x: cute.Tensor, scale: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch; no rows still take one block, which finds nothing to do."""
        blocks = cutlass.max(cutlass.Int32(cute.size(x, mode=[0]) * self.parts), 1)
        self.kernel(x, scale, out).launch(
            grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, scale: cute.Tensor, out: cute.Tensor) -> None:
        """A part of one row. All loads are issued before the first store."""
        wait_for_previous_launch()
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        tile = self.tile
        row, start = map(cutlass.Int64, tile.position(block, self.parts))
        if row < cute.size(x, mode=[0]):
            first = tile.first(start, thread)
            loaded = cute.make_rmem_tensor((tile.vector, tile.unroll), x.element_type)
            factors = cute.make_rmem_tensor(tile.unroll, cutlass.Float32)
            for u in cutlass.range_constexpr(tile.unroll):
                column = tile.offset(first, u)
                if column < self.width:
                    cute.autovec_copy(at(x, row * x.stride[0] + column, tile.vector), loaded[None, u])
                    if cutlass.const_expr(cute.rank(scale) == 1):
                        factors[u] = scale[row]
                    else:
                        factors[u] = scale[column // BLOCK, row]
            for u in cutlass.range_constexpr(tile.unroll):
                column = tile.offset(first, u)
                if column < self.width:
                    result = cute.make_rmem_tensor(tile.vector, out.element_type)
                    result.store((loaded[None, u].load().to(cutlass.Float32) * factors[u]).to(out.element_type))
                    cute.autovec_copy(result, at(out, row * out.stride[0] + column, tile.vector))


def compile_dequantizer(dtype: Any, width: int, blocks: bool, threads: int, unroll: int) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = Dequantizer(Tile(ALIGN * 8 // dtype.width, threads, unroll), width)
    rows = cute.sym_int64()
    return cute.compile(
        operation.dequantize_fp8,
        matrix(cutlass.Float8E4M3FN, rows, width),
        scales(width // BLOCK, rows) if blocks else make_fake_tensor(cutlass.Float32, (rows,), (1,), assumed_align=4),
        matrix(dtype, rows, width),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
