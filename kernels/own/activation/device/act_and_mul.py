"""``act_and_mul`` on the device: a block takes a part of one row; every thread ``unroll`` vectors of 16 bytes."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

import math
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.tiles import Tile


class ActAndMul:
    """``out = act(x[:, :width]) * x[:, width:]``, computed in float32. All loads are issued before the first store."""

    def __init__(self, tile: Tile, width: int, activation: str) -> None:
        self.tile = tile
        self.width = width
        self.parts = tile.blocks(width)
        self.activation = activation

    @cute.jit
    def act_and_mul(self, x: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch; no rows still take one block, which finds nothing to do."""
        blocks = cutlass.max(cutlass.Int32(x.shape[0]) * self.parts, 1)
        self.kernel(x, out).launch(grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=True)

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor) -> None:
        """A part of one row. The width is known, so that vectors that every thread has are not checked."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        # Every block waits for the kernel before, whose results it reads; then the next one may be made ready.
        cute.arch.griddepcontrol_wait()
        cute.arch.griddepcontrol_launch_dependents()
        tile = self.tile
        row = block // self.parts
        if row < x.shape[0]:
            source, target = cutlass.Int64(row) * x.stride[0], cutlass.Int64(row) * out.stride[0]
            first = tile.first(block % self.parts * tile.size, thread)
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
                    value = self.activated(gate) * ups[None, u].load().to(cutlass.Float32)
                    result = cute.make_rmem_tensor(tile.vector, out.element_type)
                    result.store(value.to(out.element_type))
                    cute.autovec_copy(result, at(out, target + column, tile.vector))

    def activated(self, x: Any) -> Any:
        """The activation of a vector."""
        if self.activation == "silu":
            return x / (1.0 + cute.math.exp(-x, fastmath=True))
        if self.activation == "gelu":
            return 0.5 * x * (1.0 + cute.math.erf(x * math.sqrt(0.5)))
        # The tangent of gelu_tanh as a sigmoid of twice the angle: 0.5 * (1 + tanh(z)) = 1 / (1 + exp(-2 z)).
        angle = x * (1.0 + 0.044715 * x * x) * math.sqrt(8 / math.pi)
        return x / (1.0 + cute.math.exp(-angle, fastmath=True))


def compile_act_and_mul(dtype: Any, width: int, activation: str, threads: int, unroll: int) -> Any:
    """Compile for one width: rows and their strides are free, each row aligned to 16 bytes."""
    tile = Tile(ALIGN * 8 // dtype.width, threads, unroll)
    rows = cute.sym_int()

    def matrix(columns: int) -> Any:
        stride = cute.sym_int64(divisibility=tile.vector)
        return make_fake_tensor(dtype, (rows, columns), (stride, 1), assumed_align=ALIGN)

    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    operation = ActAndMul(tile, width, activation)
    return cute.compile(operation.act_and_mul, matrix(2 * width), matrix(width), stream, options="--enable-tvm-ffi")
