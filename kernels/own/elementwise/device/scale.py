"""``scale`` on the device: a block handles one tile; every thread handles ``unroll`` vectors of 16 bytes."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.tiles import Tile


class Scale:
    """``out = x * factor``, computed in float32.

    Lengths and offsets are 64 bits wide. All loads of a full tile are issued before its first store. The last tile,
    where it is not full, is done vector by vector, and the elements after the last whole vector one by each thread.
    """

    def __init__(self, tile: Tile) -> None:
        self.tile = tile

    @cute.jit
    def scale(self, x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32, stream: Any) -> None:
        """Launch one block for each tile; an empty tensor still takes one block, which finds nothing to do."""
        n = cute.size(x)  # x.shape[0] would be cut to 32 bits
        blocks = cutlass.max(cutlass.Int32(self.tile.blocks(n)), 1)
        self.kernel(x, out, factor).launch(grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32) -> None:
        """One tile."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        tile, n = self.tile, cute.size(x)
        start = cutlass.Int64(block) * tile.size
        first = tile.first(start, thread)
        if tile.full(start, n):
            held = cute.make_rmem_tensor((tile.vector, tile.unroll), x.element_type)
            for u in cutlass.range_constexpr(tile.unroll):
                cute.autovec_copy(at(x, tile.offset(first, u), tile.vector), held[None, u])
            for u in cutlass.range_constexpr(tile.unroll):
                self.scaled(held[None, u], at(out, tile.offset(first, u), tile.vector), factor)
        else:
            for u in cutlass.range_constexpr(tile.unroll):
                offset = tile.offset(first, u)
                if tile.whole(offset, n):
                    one = cute.make_rmem_tensor(tile.vector, x.element_type)
                    cute.autovec_copy(at(x, offset, tile.vector), one)
                    self.scaled(one, at(out, offset, tile.vector), factor)
            rest = tile.rest(n, thread)
            if rest < n:
                out[rest] = (x[rest].to(cutlass.Float32) * factor).to(x.element_type)

    @cute.jit
    def scaled(self, held: cute.Tensor, destination: cute.Tensor, factor: cutlass.Float32) -> None:
        """Scale one vector in registers and store it."""
        result = cute.make_rmem_tensor(self.tile.vector, held.element_type)
        result.store((held.load().to(cutlass.Float32) * factor).to(held.element_type))
        cute.autovec_copy(result, destination)


def compile_scale(dtype: Any, threads: int, unroll: int) -> Any:
    """Compile for one dtype: two contiguous tensors of the same length, each aligned to 16 bytes."""
    n = cute.sym_int64()
    x, out = (make_fake_compact_tensor(dtype, (n,), stride_order=(0,), assumed_align=ALIGN) for _ in range(2))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    operation = Scale(Tile(ALIGN * 8 // dtype.width, threads, unroll))
    return cute.compile(operation.scale, x, out, cutlass.Float32(1.0), stream, options="--enable-tvm-ffi")
