"""What the elementwise kernels share on the device: a block takes one tile, a thread ``unroll`` vectors of 16 bytes."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream, make_fake_tensor

from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.tiles import Tile


class Tiled:
    """``out`` is a function of the elements of ``sources`` at the same place, computed in float32.

    Tensors of rank 1 are contiguous, and of any length. Those of rank 2 are rows, each tensor with a row stride of its
    own; a tile is a part of one row. Lengths and offsets are 64 bits wide. All loads of a full tile are issued before
    its first store. A tile that is not full is done vector by vector, and the elements after the last whole vector one
    by each thread.
    """

    def __init__(self, tile: Tile, rank: int) -> None:
        self.tile = tile
        self.rank = rank

    @cute.jit
    def blocks(self, out: cute.Tensor) -> cutlass.Int32:
        """One block for each tile; an empty tensor still takes one, which finds nothing to do."""
        if cutlass.const_expr(self.rank == 1):
            count = cutlass.Int32(self.tile.blocks(cute.size(out)))  # out.shape[0] would be cut to 32 bits
        else:
            count = cutlass.Int32(cute.size(out, mode=[0])) * self.parts(out)
        return cutlass.max(count, 1)

    @cute.jit
    def parts(self, out: cute.Tensor) -> cutlass.Int32:
        """How many tiles a row has; one where it is empty, since something is divided by it."""
        return cutlass.max(cutlass.Int32(self.tile.blocks(cute.size(out, mode=[1]))), 1)

    @cute.jit
    def each(self, sources: Any, out: cute.Tensor, function: cutlass.Constexpr) -> None:
        """Apply a function of vectors to this block's tile."""
        block, _, _ = cute.arch.block_idx()
        if cutlass.const_expr(self.rank == 1):
            starts = [cutlass.Int64(0)] * len(sources)
            start = cutlass.Int64(block) * self.tile.size
            self.one_tile(sources, starts, out, cutlass.Int64(0), start, cute.size(out), function)
        else:
            parts = self.parts(out)
            row, start = map(cutlass.Int64, self.tile.position(block, parts))
            if row < cute.size(out, mode=[0]):
                starts = [row * source.stride[0] for source in sources]
                columns = cutlass.Int64(cute.size(out, mode=[1]))
                self.one_tile(sources, starts, out, row * out.stride[0], start, columns, function)

    @cute.jit
    def one_tile(
        self,
        sources: Any,
        starts: Any,
        out: cute.Tensor,
        out_start: Any,
        start: Any,
        n: Any,
        function: cutlass.Constexpr,
    ) -> None:
        """The tile from ``start`` of ``n`` elements, which begin at an offset of its own in each tensor."""
        thread, _, _ = cute.arch.thread_idx()
        tile = self.tile
        first = tile.first(start, thread)
        if tile.full(start, n):
            loaded = [cute.make_rmem_tensor((tile.vector, tile.unroll), source.element_type) for source in sources]
            for u in cutlass.range_constexpr(tile.unroll):
                for i in cutlass.range_constexpr(len(sources)):
                    values = at(sources[i], starts[i] + tile.offset(first, u), tile.vector)
                    cute.autovec_copy(values, loaded[i][None, u])
            for u in cutlass.range_constexpr(tile.unroll):
                operands = [part[None, u].load().to(cutlass.Float32) for part in loaded]
                self.write(function(*operands), at(out, out_start + tile.offset(first, u), tile.vector))
        else:
            for u in cutlass.range_constexpr(tile.unroll):
                offset = tile.offset(first, u)
                if tile.whole(offset, n):
                    self.one_vector(sources, starts, out, out_start, offset, tile.vector, function)
            rest = tile.rest(n, thread)
            if rest < n:
                self.one_vector(sources, starts, out, out_start, rest, 1, function)

    @cute.jit
    def one_vector(
        self,
        sources: Any,
        starts: Any,
        out: cute.Tensor,
        out_start: Any,
        offset: Any,
        length: cutlass.Constexpr,
        function: cutlass.Constexpr,
    ) -> None:
        """The elements from one offset on."""
        operands = []
        for i in cutlass.range_constexpr(len(sources)):
            loaded = cute.make_rmem_tensor(length, sources[i].element_type)
            cute.autovec_copy(at(sources[i], starts[i] + offset, length), loaded)
            operands.append(loaded.load().to(cutlass.Float32))
        self.write(function(*operands), at(out, out_start + offset, length))

    @cute.jit
    def write(self, values: Any, destination: cute.Tensor) -> None:
        """Round a vector and store it."""
        result = cute.make_rmem_tensor(cute.size(destination), destination.element_type)
        result.store(values.to(destination.element_type))
        cute.autovec_copy(result, destination)


def stand_ins(dtype: Any, rank: int, count: int) -> list[Any]:
    """What to compile with: ``count`` tensors of the same shape, each with rows aligned to 16 bytes."""
    if rank == 1:
        n = cute.sym_int64()
        return [make_fake_compact_tensor(dtype, (n,), stride_order=(0,), assumed_align=ALIGN) for _ in range(count)]
    shape = (cute.sym_int64(), cute.sym_int64())
    strides = [cute.sym_int64(divisibility=ALIGN * 8 // dtype.width) for _ in range(count)]
    return [make_fake_tensor(dtype, shape, (stride, 1), assumed_align=ALIGN) for stride in strides]


def tile_of(dtype: Any, threads: int, unroll: int) -> Tile:
    """The tile of a block, with vectors of 16 bytes."""
    return Tile(ALIGN * 8 // dtype.width, threads, unroll)


def stream() -> Any:
    """The caller's stream."""
    return make_fake_stream(use_tvm_ffi_env_stream=True)
