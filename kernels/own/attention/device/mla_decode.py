"""``mla_decode`` on Hopper: attention of one query to a paged cache of latents, which are both keys and values.

A block has 64 heads of one sequence, and some of its latents. One warp loads latents by TMA into a ring of stages. The
first group of four warps computes scores and turns them into weights. Then both groups multiply the weights by the
values, which are the first 512 columns of the same stage: each group by 256 of them.
"""

from __future__ import annotations

import math
from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as hopper
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream, make_fake_tensor
from cutlass.utils import LayoutEnum, SmemAllocator

from precast.kernels.own.attention.device.mla_combine import combine
from precast.kernels.own.attention.device.mla_scores import Scores
from precast.kernels.own.attention.device.mla_sums import Shared, Sums, Work
from precast.kernels.own.attention.latent import GROUP, HALF, HEADS, VALUES, WARP, WIDTH, Latent
from precast.kernels.own.device.tma_ring import TmaRing, swizzled, tma_parts

_LOADING, _MULTIPLYING = 40, 232  # registers of a thread after setmaxnreg; the kernel starts with 168 for each
_LOG2_E = math.log2(math.e)


class MlaDecode:
    """``out = softmax(q @ latents.T * scale) @ latents[:, :512]``, each sequence with its own latents.

    Everything is summed in float32. The partial results of splits are in the workspace; a second kernel combines them.
    """

    def __init__(self, latent: Latent, dtype: Any) -> None:
        self.latent, self.dtype = latent, dtype

    @cute.jit
    def mla_decode(
        self,
        q: cute.Tensor,
        cache: cute.Tensor,
        page_table: cute.Tensor,
        seqused_k: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor | None,
        out_parts: cute.Tensor,
        lse_parts: cute.Tensor,
        softmax_scale: cutlass.Float32,
        stream: Any,
    ) -> None:
        """Launch one kernel, or two if sequences are split; none if the result is empty."""
        if cute.size(out) > 0:
            splits = cutlass.max(cutlass.Int32(lse_parts.shape[0]), 1)
            results = (out, lse, out_parts, lse_parts)
            self.launch(q, cache, page_table, seqused_k, results, softmax_scale * _LOG2_E, splits, stream)
            if splits > 1:
                combine(out_parts, lse_parts, out, lse, stream)

    @cute.jit
    def launch(
        self,
        q: cute.Tensor,
        cache: cute.Tensor,
        page_table: cute.Tensor,
        seqused_k: cute.Tensor,
        results: Any,
        scale: cutlass.Float32,
        splits: cutlass.Int32,
        stream: Any,
    ) -> None:
        """One block for each tile of heads, split and sequence."""
        latent, k_major, dtype = self.latent, OperandMajorMode.K, self.dtype
        score = hopper.make_trivial_tiled_mma(
            dtype, dtype, k_major, k_major, cutlass.Float32, (1, 1, 1), (HEADS, latent.keys)
        )
        weigh = hopper.make_trivial_tiled_mma(
            dtype, dtype, k_major, OperandMajorMode.MN, cutlass.Float32, (1, 1, 1), (HEADS, HALF)
        )
        tile = (HEADS, latent.keys, WIDTH)
        query_layout = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, dtype, 1)
        stage_layout = hopper.make_smem_layout_b(LayoutEnum.ROW_MAJOR, tile, dtype, latent.stages)
        weight_layout = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, (HEADS, HALF, latent.keys), dtype, 1)
        # The first two dimensions are those of a tile; the third counts sequences or pages.
        queries = cute.make_tensor(q.iterator, cute.select(q.layout, mode=[1, 2, 0]))
        pages = cute.make_tensor(cache.iterator, cute.select(cache.layout, mode=[1, 2, 0]))
        query_copy, query_tiles = self.copy(queries, cute.slice_(query_layout, (None, None, 0)), HEADS)
        page_copy, page_tiles = self.copy(pages, self.part(stage_layout), latent.rows)
        out, lse, out_parts, lse_parts = results
        blocks = latent.tiles(cutlass.Int32(out.shape[1])) * splits * cutlass.Int32(out.shape[0])
        self.kernel(
            score, weigh, query_copy, query_tiles, query_layout, page_copy, page_tiles, stage_layout, weight_layout,
            page_table, seqused_k, out, lse, out_parts, lse_parts, scale, splits,
        ).launch(
            grid=[blocks, 1, 1],
            block=[latent.threads, 1, 1],
            stream=stream,
            min_blocks_per_mp=1,
            use_pdl=True,
        )  # fmt: skip

    @cute.kernel
    def kernel(
        self,
        score: cute.TiledMma,
        weigh: cute.TiledMma,
        query_copy: cute.CopyAtom,
        query_tiles: cute.Tensor,
        query_layout: cute.ComposedLayout,
        page_copy: cute.CopyAtom,
        page_tiles: cute.Tensor,
        stage_layout: cute.ComposedLayout,
        weight_layout: cute.ComposedLayout,
        page_table: cute.Tensor,
        seqused_k: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor | None,
        out_parts: cute.Tensor,
        lse_parts: cute.Tensor,
        scale: cutlass.Float32,
        splits: cutlass.Int32,
    ) -> None:
        """The work of one block: some steps over the latents of its sequence."""
        latent = self.latent
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        shared = self.shared(query_layout, stage_layout, weight_layout)
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(shared.loaded, 1)
                shared.ring.initialize(1, 2 * GROUP // WARP)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        # The previous kernel may still write what this one reads, and read what this one writes.
        cute.arch.griddepcontrol_wait()

        tile, split, sequence = latent.position(block, latent.tiles(cutlass.Int32(out.shape[1])), splits)
        capacity = cutlass.Int32(page_table.shape[1]) * latent.page
        length = cutlass.min(cutlass.max(cutlass.Int32(seqused_k[sequence]), 0), capacity)
        first, steps = latent.steps_of_split(latent.steps(length), split, splits)
        work = Work(sequence, tile, split, splits, length, first, steps)
        score.set(warpgroup.Field.ACCUMULATE, True)
        weigh.set(warpgroup.Field.ACCUMULATE, True)
        if warp >= 2 * GROUP // WARP:
            cute.arch.setmaxregister_decrease(_LOADING)
            if warp == 2 * GROUP // WARP:
                self.load(query_copy, query_tiles, page_copy, page_tiles, page_table, work, shared)
        elif warp < GROUP // WARP:
            cute.arch.setmaxregister_increase(_MULTIPLYING)
            scores = Scores(latent, score, weigh, thread)
            scores.score_and_sum(work, shared, scale, out, lse, lse_parts)
            scores.store(work, shared, out, out_parts)
        else:
            cute.arch.setmaxregister_increase(_MULTIPLYING)
            sums = Sums(latent, weigh, 1, thread - GROUP)
            sums.sum_values(work, shared)
            sums.store(work, shared, out, out_parts)

    @cute.jit
    def load(
        self,
        query_copy: cute.CopyAtom,
        query_tiles: cute.Tensor,
        page_copy: cute.CopyAtom,
        page_tiles: cute.Tensor,
        page_table: cute.Tensor,
        work: Any,
        shared: Any,
    ) -> None:
        """Fill the stages. Page numbers are loaded before the wait for an empty stage, which hides their latency."""
        latent, ring = self.latent, shared.ring
        pieces = latent.keys // latent.rows
        queries = cute.local_tile(query_tiles, (HEADS, WIDTH), (work.tile, 0, work.sequence))
        to_queries, from_queries = tma_parts(query_copy, shared.queries, queries)
        rows = cute.local_tile(page_tiles, (latent.rows, WIDTH), (None, 0, None))
        places = cute.flat_divide(shared.stages, (latent.rows, WIDTH))  # (rows, columns, piece, 1, stage)
        to, source = tma_parts(page_copy, places, rows)
        if work.steps > 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(shared.loaded, latent.query_bytes)
            cute.copy(query_copy, from_queries, to_queries[None, 0], tma_bar_ptr=shared.loaded)
        stage, parity = cutlass.Int32(0), cutlass.Int32(1)  # all stages are empty: see TmaRing.wait_empty
        numbers = cute.make_rmem_tensor(pieces, cutlass.Int32)
        for step in cutlass.range(work.first, work.first + work.steps, unroll=1):
            left = work.length - step * latent.keys
            count = cutlass.min((left + latent.rows - 1) // latent.rows, pieces)
            for piece in cutlass.range_constexpr(pieces):
                key = step * latent.keys + cutlass.min(piece, count - 1) * latent.rows
                numbers[piece] = page_table[work.sequence, key // latent.page]
            ring.wait_empty(stage, parity)
            ring.expect(stage, count * latent.piece_bytes)
            for piece in cutlass.range_constexpr(pieces):
                if piece < count:
                    part = (step * latent.keys + piece * latent.rows) % latent.page // latent.rows
                    cute.copy(
                        page_copy, source[None, part, numbers[piece]], to[None, piece, 0, stage],
                        tma_bar_ptr=ring.full + stage,
                    )  # fmt: skip
            stage, parity = ring.after(stage, parity)
        cute.arch.griddepcontrol_launch_dependents()

    def shared(self, query_layout: Any, stage_layout: Any, weight_layout: Any) -> Shared:
        """Allocate the shared memory."""
        latent, memory = self.latent, SmemAllocator()
        loaded = memory.allocate_array(cutlass.Int64, 1)
        ring = TmaRing.allocate(memory, latent.stages)
        factors = cute.make_tensor(memory.allocate_array(cutlass.Float32, HEADS), cute.make_layout(HEADS))
        queries = swizzled(memory.allocate(latent.query_bytes, byte_alignment=1024), query_layout, self.dtype)
        stages = memory.allocate(latent.stages * latent.stage_bytes, byte_alignment=1024)
        weights = swizzled(memory.allocate(latent.weight_bytes, byte_alignment=1024), weight_layout, self.dtype)
        rows = cute.recast_ptr(stages, dtype=cutlass.Float32)
        return Shared(queries, swizzled(stages, stage_layout, self.dtype), weights, rows, factors, loaded, ring)

    def copy(self, tensor: Any, layout: Any, rows: int) -> Any:
        """The TMA descriptor for whole rows of a tensor, and the tensor of its coordinates."""
        return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), tensor, layout, (rows, WIDTH))

    def part(self, layout: Any) -> Any:
        """The layout of the part of a stage that one copy writes: all of it, or the rows of a page."""
        stage = cute.slice_(layout, (None, None, 0))
        if self.latent.rows == self.latent.keys:
            return stage
        return cute.slice_(cute.flat_divide(stage, (self.latent.rows, WIDTH)), (None, None, 0, 0))


def compile_mla_decode(latent: Latent, dtype: Any, *, lse: bool) -> Any:
    """Compile for one size of pages; sequences, heads, pages and all strides but the last are free."""
    batch, heads, splits = cute.sym_int(), cute.sym_int(), cute.sym_int()

    def rows(dtype: Any, shape: Any, align: int) -> Any:
        free = tuple(cute.sym_int64(divisibility=align * 8 // dtype.width) for _ in shape[:-1])
        return make_fake_tensor(dtype, shape, (*free, 1), assumed_align=align)

    def compact(align: int, *shape: Any) -> Any:
        order = tuple(reversed(range(len(shape))))
        return make_fake_compact_tensor(cutlass.Float32, shape, stride_order=order, assumed_align=align)

    return cute.compile(
        MlaDecode(latent, dtype).mla_decode,
        rows(dtype, (batch, heads, WIDTH), 16),
        rows(dtype, (cute.sym_int(), latent.page, WIDTH), 16),
        rows(cutlass.Int32, (batch, cute.sym_int()), 4),
        make_fake_tensor(cutlass.Int32, (batch,), (1,), assumed_align=4),
        rows(dtype, (batch, heads, VALUES), 16),
        rows(cutlass.Float32, (batch, heads), 4) if lse else None,
        compact(16, splits, batch, heads, VALUES),
        compact(4, splits, batch, heads),
        cutlass.Float32(1.0),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
