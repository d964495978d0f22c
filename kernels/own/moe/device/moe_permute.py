"""``moe_permute`` on the device: a block reads a part of one token's row, and writes it to each of its rows."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.moe.device.rows import fake_choices, fake_matrix, fake_segments, fetch_rows, row_offset
from precast.kernels.own.tiles import Tile


class MoePermute:
    """Reads each token once, however many experts it has: that is what a gathering of rows by expert would not."""

    def __init__(self, tile: Tile, hidden: int, topk: int, block: int | None) -> None:
        self.tile, self.hidden, self.topk, self.groups = tile, hidden, topk, hidden // (block or hidden)
        self.parts = tile.blocks(hidden)

    @cute.jit
    def moe_permute(
        self,
        x: cute.Tensor,
        x_scale: cute.Tensor | None,
        rows: cute.Tensor,
        out: cute.Tensor,
        out_scale: cute.Tensor | None,
        stream: Any,
    ) -> None:
        """Launch; no tokens still take one block, which finds nothing to do."""
        blocks = cutlass.max(cutlass.Int32(x.shape[0]) * self.parts, 1)
        self.kernel(x, x_scale, rows, out, out_scale).launch(
            grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(
        self,
        x: cute.Tensor,
        x_scale: cute.Tensor | None,
        rows: cute.Tensor,
        out: cute.Tensor,
        out_scale: cute.Tensor | None,
    ) -> None:
        """A part of one token. The row's length is known, so that vectors that every thread has are not checked."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        wait_for_previous_launch()
        tile = self.tile
        token = block // self.parts
        if token < x.shape[0]:
            source = cutlass.Int64(token) * x.stride[0]
            first = tile.first(block % self.parts * tile.size, thread)
            places = fetch_rows(rows, token, out, self.topk)
            loaded = cute.make_rmem_tensor((tile.vector, tile.unroll), x.element_type)
            for u in cutlass.range_constexpr(tile.unroll):
                column = tile.offset(first, u)
                if column < self.hidden:
                    cute.autovec_copy(at(x, source + column, tile.vector), loaded[None, u])
            for j in cutlass.range_constexpr(self.topk):
                row = places[j]
                if row >= 0:
                    target = row_offset(out, row)
                    for u in cutlass.range_constexpr(tile.unroll):
                        column = tile.offset(first, u)
                        if column < self.hidden:
                            cute.autovec_copy(loaded[None, u], at(out, target + column, tile.vector))
            if cutlass.const_expr(x_scale is not None):  # noqa: SIM102
                if block % self.parts == 0:
                    self.scales(x_scale, out_scale, token, thread, places)

    @cute.jit
    def scales(
        self,
        x_scale: cute.Tensor,
        out_scale: cute.Tensor,
        token: cutlass.Int32,
        thread: cutlass.Int32,
        places: cute.Tensor,
    ) -> None:
        """Copy the scales of one token, which are as far apart as there are tokens."""
        rows_of_segment = cutlass.Int32(out_scale.shape[2])
        for group in cutlass.range(thread, self.groups, self.tile.threads, unroll=1):
            scale = (x_scale.iterator + cutlass.Int64(group) * x_scale.stride[0] + token).load()
            for j in cutlass.range_constexpr(self.topk):
                row = places[j]
                if row >= 0:
                    segment = row // rows_of_segment
                    target = cutlass.Int64(segment) * out_scale.stride[0] + cutlass.Int64(group) * out_scale.stride[1]
                    (out_scale.iterator + target + (row - segment * rows_of_segment)).store(scale)


def compile_moe_permute(dtype: Any, hidden: int, topk: int, block: int | None, threads: int, unroll: int) -> Any:
    """Compile for one length of rows: tokens, segments and rows are free."""
    tile = Tile(ALIGN * 8 // dtype.width, threads, unroll)
    tokens, segments, rows_of_segment = (cute.sym_int() for _ in range(3))

    def scale(*shape: Any) -> Any:
        if block is None:
            return None
        strides = tuple(cute.sym_int64() for _ in shape[:-1])
        return make_fake_tensor(cutlass.Float32, shape, (*strides, 1), assumed_align=4)

    groups = hidden // (block or hidden)
    return cute.compile(
        MoePermute(tile, hidden, topk, block).moe_permute,
        fake_matrix(dtype, tokens, hidden),
        scale(groups, tokens),
        fake_choices(cutlass.Int32, tokens, topk),
        fake_segments(dtype, segments, rows_of_segment, hidden),
        scale(segments, groups, rows_of_segment),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
