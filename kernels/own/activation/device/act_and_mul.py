"""``act_and_mul`` on the device: a block takes a part of one row; every thread ``unroll`` vectors of 16 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.device.functions import function_of
from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.rows import matrix
from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.tiles import Tile


class ActAndMul:
    """``out = act(x[:, :width]) * x[:, width:]``, computed in float32. All loads are issued before the first store."""

    def __init__(self, tile: Tile, width: int, activation: Callable[[Any], Any]) -> None:
        self.tile = tile
        self.width = width
        self.parts = tile.blocks(width)
        self.activation = activation

    @cute.jit
    def act_and_mul(self, x: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch; no rows still take one block, which finds nothing to do."""
        blocks = cutlass.max(cutlass.Int32(x.shape[0]) * self.parts, 1)
        self.kernel(x, out).launch(
            grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor) -> None:
        """A part of one row. The width is known, so that vectors that every thread has are not checked."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        wait_for_previous_launch()
        tile = self.tile
        row, start = tile.position(block, self.parts)
        if row < x.shape[0]:
            source, target = cutlass.Int64(row) * x.stride[0], cutlass.Int64(row) * out.stride[0]
            first = tile.first(start, thread)
            gates = cute.make_rmem_tensor((tile.vector, tile.unroll), x.element_type)
            ups = cute.make_rmem_tensor((tile.vector, tile.unroll), x.element_type)
            for u in cutlass.range_constexpr(tile.unroll):
                column = tile.offset(first, u)
                if column < self.width:
                    cute.autovec_copy(at(x, source + column, tile.vector), gates[None, u])
                    cute.autovec_copy(at(x, source + self.width + column, tile.vector), ups[None, u])
            for u in cutlass.range_constexpr(tile.unroll):
                column = tile.offset(first, u)
                if column < self.width:
                    gate = gates[None, u].load().to(cutlass.Float32)
                    value = self.activation(gate) * ups[None, u].load().to(cutlass.Float32)
                    result = cute.make_rmem_tensor(tile.vector, out.element_type)
                    result.store(value.to(out.element_type))
                    cute.autovec_copy(result, at(out, target + column, tile.vector))


def compile_act_and_mul(dtype: Any, width: int, activation: str, threads: int, unroll: int) -> Any:
    """Compile for one width: rows and their strides are free, each row aligned to 16 bytes."""
    operation = ActAndMul(Tile(ALIGN * 8 // dtype.width, threads, unroll), width, function_of(activation, dtype))
    rows = cute.sym_int()
    return cute.compile(
        operation.act_and_mul,
        matrix(dtype, rows, 2 * width),
        matrix(dtype, rows, width),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
