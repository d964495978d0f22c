"""``mla_decode`` on Hopper: attention of one query to a paged cache of latents, which are keys and values at once.

A block has 64 heads of one sequence, and a share of its latents. One warp loads latents by TMA into a ring of stages.
The first group of four warps scores them, and turns scores into weights; then both groups multiply the weights by the
values, which are the first 512 columns of the same stage: each group by 256 of them.
"""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

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
from precast.kernels.own.attention.latent import (
    GROUP, HEADS, LOADING, MULTIPLYING, VALUES, WARP, WIDTH, Latent, column, row,
)  # fmt: skip

_HALF = VALUES // 2  # columns of the values that a group has
_WEIGHED, _FREE = 1, 2  # the barriers of both groups: weights are written, weights may be written; 0 is the block's
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)


class MlaDecode:
    """``out = softmax(q @ latents.T * scale) @ latents[:, :512]``, each sequence with its own latents.

    Everything is summed in float32. What a split has of a result stands in the workspace, from which a second kernel
    adds it up.
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
        """Launch one kernel, or two where sequences are split; an empty result takes none."""
        if cute.size(out) > 0:
            splits = cutlass.max(cutlass.Int32(lse_parts.shape[0]), 1)
            self.launch(
                q, cache, page_table, seqused_k, out, lse, out_parts, lse_parts, softmax_scale, splits, stream
            )  # fmt: skip
            if splits > 1:
                combine(out_parts, lse_parts, out, lse, stream)

    @cute.jit
    def launch(
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
        splits: cutlass.Int32,
        stream: Any,
    ) -> None:
        """One block for each tile of heads, split and sequence."""
        latent, k_major, dtype = self.latent, OperandMajorMode.K, self.dtype
        score = hopper.make_trivial_tiled_mma(
            dtype, dtype, k_major, k_major, cutlass.Float32, (1, 1, 1), (HEADS, latent.keys)
        )
        weigh = hopper.make_trivial_tiled_mma(
            dtype, dtype, k_major, OperandMajorMode.MN, cutlass.Float32, (1, 1, 1), (HEADS, _HALF)
        )
        tile = (HEADS, latent.keys, WIDTH)
        query_layout = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, dtype, 1)
        stage_layout = hopper.make_smem_layout_b(LayoutEnum.ROW_MAJOR, tile, dtype, latent.stages)
        weight_layout = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, (HEADS, _HALF, latent.keys), dtype, 1)
        # The last two dimensions are those of a tile; the one before counts sequences or pages.
        queries = cute.make_tensor(q.iterator, cute.select(q.layout, mode=[1, 2, 0]))
        pages = cute.make_tensor(cache.iterator, cute.select(cache.layout, mode=[1, 2, 0]))
        query_copy, query_tiles = self.copy(queries, cute.slice_(query_layout, (None, None, 0)), HEADS)
        page_copy, page_tiles = self.copy(pages, self.part(stage_layout), latent.rows)
        blocks = latent.tiles(cutlass.Int32(out.shape[1])) * splits * cutlass.Int32(out.shape[0])
        self.kernel(
            score, weigh, query_copy, query_tiles, query_layout, page_copy, page_tiles, stage_layout, weight_layout,
            page_table, seqused_k, out, lse, out_parts, lse_parts, softmax_scale * _LOG2_E, splits,
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
        """The share of one block: a few steps over the latents of its sequence."""
        latent = self.latent
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        tile, split, sequence = latent.place(block, latent.tiles(cutlass.Int32(out.shape[1])), splits)

        shared = SmemAllocator()
        asked = shared.allocate_array(cutlass.Int64, 1)
        full = shared.allocate_array(cutlass.Int64, latent.stages)
        empty = shared.allocate_array(cutlass.Int64, latent.stages)
        factors = shared.allocate_array(cutlass.Float32, HEADS)
        queries = self.view(shared.allocate(latent.query_bytes, byte_alignment=1024), query_layout)
        stages = self.view(shared.allocate(latent.stages * latent.stage_bytes, byte_alignment=1024), stage_layout)
        weights = self.view(shared.allocate(latent.weight_bytes, byte_alignment=1024), weight_layout)
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(asked, 1)
                for stage in cutlass.range_constexpr(latent.stages):
                    cute.arch.mbarrier_init(full + stage, 1)
                    cute.arch.mbarrier_init(empty + stage, 2 * GROUP // WARP)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        # The kernel before may still be writing what this one reads, and reading what it writes.
        cute.arch.griddepcontrol_wait()

        room = cutlass.Int32(page_table.shape[1]) * latent.page
        length = cutlass.min(cutlass.max(cutlass.Int32(seqused_k[sequence]), 0), room)
        first, steps = latent.share(latent.steps(length), split, splits)
        score.set(warpgroup.Field.ACCUMULATE, True)
        weigh.set(warpgroup.Field.ACCUMULATE, True)
        if warp >= 2 * GROUP // WARP:
            cute.arch.setmaxregister_decrease(LOADING)
            if warp == 2 * GROUP // WARP:
                asked_tile = cute.local_tile(query_tiles, (HEADS, WIDTH), (tile, 0, sequence))
                self.load(
                    query_copy, asked_tile, queries, page_copy, page_tiles, stages, page_table, sequence, length,
                    first, steps, asked, full, empty,
                )  # fmt: skip
        elif warp < GROUP // WARP:
            cute.arch.setmaxregister_increase(MULTIPLYING)
            self.score(
                score, weigh, queries, stages, weights, factors, asked, full, empty, length, first, steps, scale,
                thread, tile, split, sequence, out, lse, out_parts, lse_parts, splits,
            )  # fmt: skip
        else:
            cute.arch.setmaxregister_increase(MULTIPLYING)
            self.weigh(
                weigh, stages, weights, factors, full, empty, length, first, steps,
                thread - GROUP, tile, split, sequence, out, out_parts, splits,
            )  # fmt: skip

    @cute.jit
    def load(
        self,
        query_copy: cute.CopyAtom,
        query_tile: cute.Tensor,
        queries: cute.Tensor,
        page_copy: cute.CopyAtom,
        page_tiles: cute.Tensor,
        stages: cute.Tensor,
        page_table: cute.Tensor,
        sequence: cutlass.Int32,
        length: cutlass.Int32,
        first: cutlass.Int32,
        steps: cutlass.Int32,
        asked: cute.Pointer,
        full: cute.Pointer,
        empty: cute.Pointer,
    ) -> None:
        """Fill the stages. The number of a page is fetched before the stage that it goes to is free."""
        latent = self.latent
        one = cute.make_layout(1)
        pieces = latent.keys // latent.rows
        to_queries, from_queries = cpasync.tma_partition(
            query_copy, 0, one, cute.group_modes(queries, 0, 2), cute.group_modes(query_tile, 0, 2)
        )
        rows = cute.local_tile(page_tiles, (latent.rows, WIDTH), (None, 0, None))
        places = cute.flat_divide(stages, (latent.rows, WIDTH))  # (rows, columns, piece, 1, stage)
        to, source = cpasync.tma_partition(
            page_copy, 0, one, cute.group_modes(places, 0, 2), cute.group_modes(rows, 0, 2)
        )
        if steps > 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(asked, latent.query_bytes)
            cute.copy(query_copy, from_queries, to_queries[None, 0], tma_bar_ptr=asked)
        stage, parity = cutlass.Int32(0), cutlass.Int32(1)  # of a phase that counts as over: all stages are empty
        numbers = cute.make_rmem_tensor(pieces, cutlass.Int32)
        for step in cutlass.range(first, first + steps, unroll=1):
            there = cutlass.min((length - step * latent.keys + latent.rows - 1) // latent.rows, pieces)
            for piece in cutlass.range_constexpr(pieces):
                key = step * latent.keys + cutlass.min(piece, there - 1) * latent.rows
                numbers[piece] = page_table[sequence, key // latent.page]
            cute.arch.mbarrier_wait(empty + stage, parity)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, there * (latent.rows * WIDTH * 2))
            for piece in cutlass.range_constexpr(pieces):
                if piece < there:
                    place = (step * latent.keys + piece * latent.rows) % latent.page // latent.rows
                    cute.copy(
                        page_copy, source[None, place, numbers[piece]], to[None, piece, 0, stage],
                        tma_bar_ptr=full + stage,
                    )  # fmt: skip
            stage += 1
            if stage == latent.stages:
                stage = cutlass.Int32(0)
                parity ^= 1

    @cute.jit
    def score(
        self,
        score: cute.TiledMma,
        weigh: cute.TiledMma,
        queries: cute.Tensor,
        stages: cute.Tensor,
        weights: cute.Tensor,
        factors: cute.Pointer,
        asked: cute.Pointer,
        full: cute.Pointer,
        empty: cute.Pointer,
        length: cutlass.Int32,
        first: cutlass.Int32,
        steps: cutlass.Int32,
        scale: cutlass.Float32,
        thread: cutlass.Int32,
        tile: cutlass.Int32,
        split: cutlass.Int32,
        sequence: cutlass.Int32,
        out: cute.Tensor,
        lse: cute.Tensor | None,
        out_parts: cute.Tensor,
        lse_parts: cute.Tensor,
        splits: cutlass.Int32,
    ) -> None:
        """Score each stage, weigh it for both groups, and sum up the first half of the values.

        A weight is ``2 ** (score - most)`` with the largest score of the row so far; when that grows, the sums of
        both groups are multiplied by a factor first. A row whose scores are all minus infinity counts from zero.
        """
        latent = self.latent
        group = score.get_slice(0)
        asking = score.make_fragment_A(group.partition_A(queries))
        latents = score.make_fragment_B(group.partition_B(stages))
        scores = cute.make_rmem_tensor(score.partition_shape_C((HEADS, latent.keys)), cutlass.Float32)
        rounded = cute.make_rmem_tensor(scores.shape, self.dtype)
        mine = score.get_slice(thread).partition_C(cute.slice_(weights, (None, None, 0)))
        own = cute.make_tensor(scores.iterator, cute.make_layout((2, 2, latent.keys // 8)))
        shared = cute.make_tensor(factors, cute.make_layout(HEADS))
        total = self.sums(weigh)
        most, sums = cute.make_rmem_tensor(2, cutlass.Float32), cute.make_rmem_tensor(2, cutlass.Float32)
        scaling = cute.make_rmem_tensor(2, cutlass.Float32)
        most.fill(-math.inf)
        sums.fill(0)
        stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        if steps > 0:
            cute.arch.mbarrier_wait(asked, 0)
        for step in cutlass.range(first, first + steps, unroll=1):
            scores.fill(0)
            cute.arch.mbarrier_wait(full + stage, parity)
            warpgroup.fence()
            for k in cutlass.range_constexpr(cute.size(asking, mode=[2])):
                cute.gemm(score, scores, asking[None, None, k, 0], latents[None, None, k, stage], scores)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            known = length - step * latent.keys
            for half in cutlass.range_constexpr(2):
                best = most[half]
                for pair in cutlass.range_constexpr(latent.keys // 8):
                    for i in cutlass.range_constexpr(2):
                        value = own[i, half, pair] * scale
                        if column(thread, pair) + i >= known:
                            value = cutlass.Float32(-math.inf)
                        own[i, half, pair] = value
                        best = cute.arch.fmax(best, value)
                best = cute.arch.warp_reduction_max(best, threads_in_group=4)
                base = best
                if best == -math.inf:
                    base = cutlass.Float32(0)
                scaling[half] = cute.arch.exp2(most[half] - base)
                most[half] = best
                sums[half] = sums[half] * scaling[half]
                for pair in cutlass.range_constexpr(latent.keys // 8):
                    for i in cutlass.range_constexpr(2):
                        weight = cute.arch.exp2(own[i, half, pair] - base)
                        own[i, half, pair] = weight
                        sums[half] = sums[half] + weight
            rounded.store(scores.load().to(self.dtype))
            cute.arch.barrier(barrier_id=_FREE, number_of_threads=2 * GROUP)
            cute.autovec_copy(rounded, mine)
            if thread % 4 == 0:
                for half in cutlass.range_constexpr(2):
                    shared[row(thread, half)] = scaling[half]
            cute.arch.fence_view_async_shared()
            cute.arch.barrier(barrier_id=_WEIGHED, number_of_threads=2 * GROUP)
            self.add(weigh, total, scaling, weights, stages, 0, stage)
            self.release(empty + stage)
            stage += 1
            if stage == latent.stages:
                stage = cutlass.Int32(0)
                parity ^= 1

        for half in cutlass.range_constexpr(2):
            whole = cute.arch.warp_reduction_sum(sums[half], threads_in_group=4)
            base, inverse = most[half], cutlass.Float32(0)
            if base == -math.inf:
                base = cutlass.Float32(0)
            if whole != 0.0:
                inverse = 1.0 / whole
            scaling[half] = inverse
            sums[half] = (base + cute.math.log2(whole)) * _LN_2  # minus infinity where nothing was seen
        cute.arch.barrier(barrier_id=_FREE, number_of_threads=2 * GROUP)
        if thread % 4 == 0:
            for half in cutlass.range_constexpr(2):
                head = tile * HEADS + row(thread, half)
                shared[row(thread, half)] = scaling[half]
                if head < out.shape[1]:
                    if splits > 1:
                        lse_parts[split, sequence, head] = sums[half]
                    elif cutlass.const_expr(lse is not None):
                        lse[sequence, head] = sums[half]
        cute.arch.barrier(barrier_id=_WEIGHED, number_of_threads=2 * GROUP)
        self.store(total, scaling, thread, tile, split, sequence, 0, steps, out, out_parts, splits)

    @cute.jit
    def weigh(
        self,
        weigh: cute.TiledMma,
        stages: cute.Tensor,
        weights: cute.Tensor,
        factors: cute.Pointer,
        full: cute.Pointer,
        empty: cute.Pointer,
        length: cutlass.Int32,
        first: cutlass.Int32,
        steps: cutlass.Int32,
        thread: cutlass.Int32,
        tile: cutlass.Int32,
        split: cutlass.Int32,
        sequence: cutlass.Int32,
        out: cute.Tensor,
        out_parts: cute.Tensor,
        splits: cutlass.Int32,
    ) -> None:
        """Sum up the second half of the values, with the weights of the first group."""
        latent = self.latent
        shared = cute.make_tensor(factors, cute.make_layout(HEADS))
        scaling = cute.make_rmem_tensor(2, cutlass.Float32)
        total = self.sums(weigh)
        stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        for step in cutlass.range(first, first + steps, unroll=1):
            cute.arch.barrier_arrive(barrier_id=_FREE, number_of_threads=2 * GROUP)
            cute.arch.mbarrier_wait(full + stage, parity)
            known = length - step * latent.keys
            if known < latent.keys:
                self.clear(stages, known, thread, stage)
            cute.arch.barrier(barrier_id=_WEIGHED, number_of_threads=2 * GROUP)
            for half in cutlass.range_constexpr(2):
                scaling[half] = shared[row(thread, half)]
            self.add(weigh, total, scaling, weights, stages, 1, stage)
            self.release(empty + stage)
            stage += 1
            if stage == latent.stages:
                stage = cutlass.Int32(0)
                parity ^= 1
        cute.arch.barrier_arrive(barrier_id=_FREE, number_of_threads=2 * GROUP)
        cute.arch.barrier(barrier_id=_WEIGHED, number_of_threads=2 * GROUP)
        for half in cutlass.range_constexpr(2):
            scaling[half] = shared[row(thread, half)]
        self.store(total, scaling, thread, tile, split, sequence, 1, steps, out, out_parts, splits)

    @cute.jit
    def clear(self, stages: cute.Tensor, known: cutlass.Int32, thread: cutlass.Int32, stage: cutlass.Int32) -> None:
        """Zero the values behind the end of a sequence: a weight of zero would not hide what stands there, say NaN."""
        for key in cutlass.range(known, self.latent.keys, unroll=1):
            for part in cutlass.range_constexpr(VALUES // GROUP):
                stages[key, part * GROUP + thread, stage] = self.dtype(0)
        cute.arch.fence_view_async_shared()

    @cute.jit
    def add(
        self,
        weigh: cute.TiledMma,
        total: cute.Tensor,
        scaling: cute.Tensor,
        weights: cute.Tensor,
        stages: cute.Tensor,
        part: cutlass.Constexpr,
        stage: cutlass.Int32,
    ) -> None:
        """Multiply a group's sums by a factor for each row, and add the weighted values of a stage."""
        self.multiply(total, scaling)
        # Values are the same elements, with the columns first.
        turned = cute.make_tensor(stages.iterator, cute.select(stages.layout, mode=[1, 0, 2]))
        columns = cute.local_tile(turned, (_HALF, self.latent.keys), (part, 0, None))
        group = weigh.get_slice(0)
        first = weigh.make_fragment_A(group.partition_A(weights))
        second = weigh.make_fragment_B(group.partition_B(columns))
        warpgroup.fence()
        for k in cutlass.range_constexpr(cute.size(first, mode=[2])):
            cute.gemm(weigh, total, first[None, None, k, 0], second[None, None, k, stage], total)
        warpgroup.commit_group()
        warpgroup.wait_group(0)

    @cute.jit
    def multiply(self, total: cute.Tensor, scaling: cute.Tensor) -> None:
        """Multiply the sums of each row by its factor."""
        own = cute.make_tensor(total.iterator, cute.make_layout((2, 2, _HALF // 8)))
        for half in cutlass.range_constexpr(2):
            for pair in cutlass.range_constexpr(_HALF // 8):
                for i in cutlass.range_constexpr(2):
                    own[i, half, pair] = own[i, half, pair] * scaling[half]

    @cute.jit
    def release(self, empty: cute.Pointer) -> None:
        """One arrival of this warp: it has read the stage."""
        if cute.arch.lane_idx() == 0:
            cute.arch.mbarrier_arrive(empty)

    @cute.jit
    def store(
        self,
        total: cute.Tensor,
        scaling: cute.Tensor,
        thread: cutlass.Int32,
        tile: cutlass.Int32,
        split: cutlass.Int32,
        sequence: cutlass.Int32,
        part: cutlass.Constexpr,
        steps: cutlass.Int32,
        out: cute.Tensor,
        out_parts: cute.Tensor,
        splits: cutlass.Int32,
    ) -> None:
        """Divide a group's sums, and write them to the result, or to the workspace: a split without latents has none."""
        self.multiply(total, scaling)
        for half in cutlass.range_constexpr(2):
            head = tile * HEADS + row(thread, half)
            if head < out.shape[1]:
                if splits > 1:
                    if steps > 0:
                        place = cute.crd2idx((split, sequence, head, part * _HALF), out_parts.layout)
                        self.write(total, half, thread, out_parts, place)
                else:
                    place = cutlass.Int64(sequence) * out.stride[0] + head * out.stride[1] + part * _HALF
                    self.write(total, half, thread, out, place)

    @cute.jit
    def write(
        self, total: cute.Tensor, half: cutlass.Constexpr, thread: cutlass.Int32, to: cute.Tensor, place: Any
    ) -> None:
        """Write a thread's share of a row, two neighbouring elements at a time."""
        own = cute.make_tensor(total.iterator, cute.make_layout((2, 2, _HALF // 8)))
        pair_of = cute.make_rmem_tensor(2, to.element_type)
        for pair in cutlass.range_constexpr(_HALF // 8):
            pair_of.store(own[None, half, pair].load().to(to.element_type))
            start = to.iterator + cute.assume(place + column(thread, pair), divby=2)
            cute.autovec_copy(pair_of, cute.make_tensor(start, cute.make_layout(2)))

    def sums(self, weigh: Any) -> Any:
        """A group's sums, zero."""
        total = cute.make_rmem_tensor(weigh.partition_shape_C((HEADS, _HALF)), cutlass.Float32)
        total.fill(0)
        return total

    def copy(self, tensor: Any, layout: Any, rows: int) -> Any:
        """How TMA copies whole rows of a tensor, and the tensor for it."""
        return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), tensor, layout, (rows, WIDTH))

    def part(self, layout: Any) -> Any:
        """The layout of what one copy writes of a stage: all of it, or the rows of a page."""
        stage = cute.slice_(layout, (None, None, 0))
        if self.latent.rows == self.latent.keys:
            return stage
        return cute.slice_(cute.flat_divide(stage, (self.latent.rows, WIDTH)), (None, None, 0, 0))

    def view(self, pointer: Any, layout: Any) -> Any:
        """Shared memory in the order that wgmma reads."""
        return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, dtype=self.dtype), layout.outer)


def compile_mla_decode(latent: Latent, dtype: Any, *, lse: bool) -> Any:
    """Compile for one size of pages; sequences, heads, pages and all strides but the last are free."""
    batch, heads, splits = cute.sym_int(), cute.sym_int(), cute.sym_int()

    def rows(dtype: Any, shape: Any, align: int) -> Any:
        divisible = align * 8 // dtype.width
        free = tuple(cute.sym_int64(divisibility=divisible) for _ in shape[:-1])
        return make_fake_tensor(dtype, shape, (*free, 1), assumed_align=align)

    def compact(*shape: Any) -> Any:
        order = tuple(reversed(range(len(shape))))
        return make_fake_compact_tensor(cutlass.Float32, shape, stride_order=order, assumed_align=16)

    operation = MlaDecode(latent, dtype)
    return cute.compile(
        operation.mla_decode,
        rows(dtype, (batch, heads, WIDTH), 16),
        rows(dtype, (cute.sym_int(), latent.page, WIDTH), 16),
        rows(cutlass.Int32, (batch, cute.sym_int()), 4),
        make_fake_tensor(cutlass.Int32, (batch,), (1,), assumed_align=4),
        rows(dtype, (batch, heads, VALUES), 16),
        rows(cutlass.Float32, (batch, heads), 4) if lse else None,
        compact(splits, batch, heads, VALUES),
        make_fake_compact_tensor(
            cutlass.Float32, (splits, batch, heads), stride_order=(2, 1, 0), assumed_align=4
        ),
        cutlass.Float32(1.0),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
