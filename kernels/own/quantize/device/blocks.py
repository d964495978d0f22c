"""``quantize_fp8`` with a scale for every 128 columns of a row, on the device."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.device.float8_blocks import Float8Blocks, scales
from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.rows import matrix
from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.float8 import BLOCK
from precast.kernels.own.tiles import Tile


class BlockQuantizer(Float8Blocks):
    """``scale = max(abs(x)) / 448`` of each block of columns in a row, and ``out = x / scale``."""

    @cute.jit
    def quantize_fp8(self, x: cute.Tensor, out: cute.Tensor, scale: cute.Tensor, stream: Any) -> None:
        """Launch."""
        self.kernel(x, out, scale).launch(
            grid=[self.grid(x), 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, scale: cute.Tensor) -> None:
        """A part of one row. All loads are issued before the first store."""
        wait_for_previous_launch()
        tile = self.tile
        row, first = self.position()
        if row < cute.size(x, mode=[0]):
            loaded = cute.make_rmem_tensor((tile.vector, tile.unroll), x.element_type)
            loaded.fill(0)
            for u in cutlass.range_constexpr(tile.unroll):
                column = tile.offset(first, u)
                if column < self.width:
                    cute.autovec_copy(at(x, row * x.stride[0] + column, tile.vector), loaded[None, u])
            for u in cutlass.range_constexpr(tile.unroll):
                self.store(loaded[None, u].load().to(cutlass.Float32), out, scale, row, tile.offset(first, u))


def compile_block_quantizer(dtype: Any, width: int, threads: int, unroll: int, least: float) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = BlockQuantizer(Tile(ALIGN * 8 // dtype.width, threads, unroll), width, least)
    rows = cute.sym_int64()
    return cute.compile(
        operation.quantize_fp8,
        matrix(dtype, rows, width),
        matrix(cutlass.Float8E4M3FN, rows, width),
        scales(width // BLOCK, rows),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
