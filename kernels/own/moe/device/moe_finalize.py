"""``moe_finalize`` on the device: a block takes a part of one token; each thread loads its vectors of all choices."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.moe.device.rows import fake_choices, fake_matrix, fake_segments, fetch_rows, row_offset
from precast.kernels.own.tiles import Tile


class MoeFinalize:
    """A weighted sum of rows in float32, choice by choice. ``BATCH`` choices are loaded before the first is added."""

    BATCH = 8

    def __init__(self, tile: Tile, hidden: int, topk: int) -> None:
        self.tile, self.hidden, self.topk = tile, hidden, topk
        self.parts = tile.blocks(hidden)

    @cute.jit
    def moe_finalize(
        self, y: cute.Tensor, rows: cute.Tensor, weights: cute.Tensor, out: cute.Tensor, stream: Any
    ) -> None:
        """Launch; no tokens still take one block, which finds nothing to do."""
        blocks = cutlass.max(cutlass.Int32(out.shape[0]) * self.parts, 1)
        self.kernel(y, rows, weights, out).launch(
            grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, y: cute.Tensor, rows: cute.Tensor, weights: cute.Tensor, out: cute.Tensor) -> None:
        """A part of one token."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        wait_for_previous_launch()
        tile = self.tile
        token = block // self.parts
        if token < out.shape[0]:
            target = cutlass.Int64(token) * out.stride[0]
            first = tile.first(block % self.parts * tile.size, thread)
            places = fetch_rows(rows, token, y, self.topk)
            factors = cute.make_rmem_tensor(self.topk, cutlass.Float32)
            sources = cute.make_rmem_tensor(self.topk, cutlass.Int64)
            for j in cutlass.range_constexpr(self.topk):
                factors[j] = (weights.iterator + cutlass.Int64(token) * self.topk + j).load()
            for j in cutlass.range_constexpr(self.topk):
                sources[j] = row_offset(y, places[j])
                if places[j] < 0:
                    factors[j] = cutlass.Float32(0)
            for u in cutlass.range_constexpr(tile.unroll):
                column = tile.offset(first, u)
                if column < self.hidden:
                    self.vector(y, places, sources, factors, out, target, column)

    @cute.jit
    def vector(
        self,
        y: cute.Tensor,
        places: cute.Tensor,
        sources: cute.Tensor,
        factors: cute.Tensor,
        out: cute.Tensor,
        target: cutlass.Int64,
        column: cutlass.Int32,
    ) -> None:
        """Add up one vector. What was dropped is not loaded, and zero times zero is added for it."""
        vector = self.tile.vector
        total = cute.make_rmem_tensor(vector, cutlass.Float32)
        total.fill(0)
        for start in cutlass.range_constexpr(0, self.topk, self.BATCH):
            count = min(self.BATCH, self.topk - start)
            loaded = cute.make_rmem_tensor((vector, count), y.element_type)
            loaded.fill(0)
            for j in cutlass.range_constexpr(count):
                if places[start + j] >= 0:
                    cute.autovec_copy(at(y, sources[start + j] + column, vector), loaded[None, j])
            for j in cutlass.range_constexpr(count):
                total.store(total.load() + loaded[None, j].load().to(cutlass.Float32) * factors[start + j])
        result = cute.make_rmem_tensor(vector, out.element_type)
        result.store(total.load().to(out.element_type))
        cute.autovec_copy(result, at(out, target + column, vector))


def compile_moe_finalize(dtype: Any, hidden: int, topk: int, threads: int, unroll: int) -> Any:
    """Compile for one length of rows: tokens, segments and rows are free."""
    tile = Tile(ALIGN * 8 // dtype.width, threads, unroll)
    tokens, segments, rows_of_segment = (cute.sym_int() for _ in range(3))
    return cute.compile(
        MoeFinalize(tile, hidden, topk).moe_finalize,
        fake_segments(dtype, segments, rows_of_segment, hidden),
        fake_choices(cutlass.Int32, tokens, topk),
        fake_choices(cutlass.Float32, tokens, topk),
        fake_matrix(dtype, tokens, hidden),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
