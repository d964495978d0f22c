"""Products of many experts on Hopper: blocks that stay, and take the tiles that have rows one after another.

The weights stand on the side of wgmma that takes 64, tokens on the side that takes any multiple of 8: few tokens cost
little. One warp loads by TMA into a ring of stages, also while the others store the tile before.
"""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as hopper
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor
from cutlass.utils import HardwareInfo, LayoutEnum, SmemAllocator

from precast.kernels.own.device.scans import warp_through
from precast.kernels.own.device.vectors import ALIGN
from precast.kernels.own.matrix.blocking import GROUP, WARP
from precast.kernels.own.matrix.grouping import BLOCK, PITCH, Grouping, expert_of, table_size

# How long the L2 cache keeps what TMA loads, in its own encoding: evicted first, as usual, last.
_ONCE, _USUAL, _OFTEN = 0x12F0000000000000, 0x1000000000000000, 0x14F0000000000000
_STAGING = 1  # the number of the first group's barrier; 0 is the whole block's
_MOST = 2**31 - 1
_VECTOR = 8  # results of 16 bits in 16 bytes


class GroupedGemm:
    """``out[rows of e] = a[rows of e] @ b[e].T`` for each expert, summed in float32, for any sizes.

    The rows of an expert are the first ``counts[e]`` of a segment of its own, or, in the ``packed`` layout, those of
    the one segment from ``counts[e]`` to ``counts[e + 1]``. Every warp works out by itself which tiles its block takes,
    from a table in shared memory. Rows after an expert's last are loaded where a tile has them, and not stored.
    """

    def __init__(self, grouping: Grouping, dtype: Any, experts: int, packed: bool, clusters: int) -> None:
        self.grouping, self.dtype, self.experts, self.packed = grouping, dtype, experts, packed
        self.clusters, self.table_size = clusters, table_size(experts)

    @cute.jit
    def grouped_gemm_masked(
        self,
        a: cute.Tensor,
        a_scale: cute.Tensor | None,
        b: cute.Tensor,
        b_scale: cute.Tensor | None,
        out: cute.Tensor,
        masked_m: cute.Tensor,
        stream: Any,
    ) -> None:
        """Launch; where there is no row or no column, nothing is."""
        if cute.size(out) > 0:
            self.launch(a, a_scale, b, b_scale, out, masked_m, stream)

    @cute.jit
    def grouped_gemm_contiguous(
        self,
        a: cute.Tensor,
        a_scale: cute.Tensor | None,
        b: cute.Tensor,
        b_scale: cute.Tensor | None,
        out: cute.Tensor,
        offsets: cute.Tensor,
        stream: Any,
    ) -> None:
        """Launch; where there is no row or no column, nothing is."""
        if cute.size(out) > 0:
            self.launch(a, a_scale, b, b_scale, out, offsets, stream)

    @cute.jit
    def launch(
        self,
        a: cute.Tensor,
        a_scale: cute.Tensor | None,
        b: cute.Tensor,
        b_scale: cute.Tensor | None,
        out: cute.Tensor,
        counts: cute.Tensor,
        stream: Any,
    ) -> None:
        """As many clusters as run at once, or as there can be tiles."""
        grouping = self.grouping
        weights = cute.make_tensor(b.iterator, cute.select(b.layout, mode=[1, 2, 0]))
        tokens = cute.make_tensor(a.iterator, cute.select(a.layout, mode=[1, 2, 0]))
        tile = (grouping.rows, grouping.tokens, grouping.depth)
        b_layout = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, self.dtype, grouping.stages)
        # The same memory as parts that are loaded one by one.
        part = (grouping.columns, *tile[1:])
        b_parts = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, part, self.dtype, grouping.stages * grouping.loads)
        a_layout = hopper.make_smem_layout_b(LayoutEnum.ROW_MAJOR, tile, self.dtype, grouping.stages)
        b_copy, b_tiles = self.copy(weights, b_parts, (grouping.columns, grouping.depth), grouping.along)
        a_copy, a_tiles = self.copy(tokens, a_layout, (grouping.tokens, grouping.depth), grouping.across)
        row_clusters = grouping.row_clusters(cutlass.Int32(out.shape[2]))
        tiles = grouping.token_clusters(cutlass.Int32(out.shape[1])) * row_clusters * self.experts
        clusters = cutlass.min(tiles, self.clusters)
        self.kernel(
            b_copy, b_tiles, b_layout, b_parts, a_copy, a_tiles, a_layout, a_scale, b_scale, out, counts
        ).launch(
            grid=[clusters * grouping.cluster, 1, 1],
            block=[grouping.threads, 1, 1],
            cluster=[grouping.cluster, 1, 1],
            stream=stream,
            min_blocks_per_mp=1,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        b_copy: cute.CopyAtom,
        b_tiles: cute.Tensor,
        b_layout: cute.ComposedLayout,
        b_parts: cute.ComposedLayout,
        a_copy: cute.CopyAtom,
        a_tiles: cute.Tensor,
        a_layout: cute.ComposedLayout,
        a_scale: cute.Tensor | None,
        b_scale: cute.Tensor | None,
        out: cute.Tensor,
        counts: cute.Tensor,
    ) -> None:
        """One block: a warp that loads, and those that multiply and store."""
        grouping = self.grouping
        warp_number = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        shared = SmemAllocator()
        full = shared.allocate_array(cutlass.Int64, grouping.stages)
        empty = shared.allocate_array(cutlass.Int64, grouping.stages)
        table = cute.make_tensor(
            shared.allocate_array(cutlass.Int32, self.table_size), cute.make_layout(self.table_size)
        )
        staging = cute.recast_ptr(shared.allocate(grouping.staged_bytes, byte_alignment=128), dtype=out.element_type)
        depth_bytes = grouping.depth * grouping.width
        b_room = shared.allocate(grouping.stages * grouping.rows * depth_bytes, byte_alignment=1024)
        b_stages = self.stages(b_room, b_layout)
        a_stages = self.stages(
            shared.allocate(grouping.stages * grouping.tokens * depth_bytes, byte_alignment=1024), a_layout
        )
        scale_stages = None
        if cutlass.const_expr(grouping.scaled):
            room = shared.allocate(grouping.stages * grouping.scale_bytes, byte_alignment=128)
            scale_stages = cute.make_tensor(cute.recast_ptr(room, dtype=cutlass.Float32), self.scale_layout())
        if warp_number == grouping.warps:
            cpasync.prefetch_descriptor(b_copy)
            cpasync.prefetch_descriptor(a_copy)
        if warp_number == 0:
            with cute.arch.elect_one():
                for stage in cutlass.range_constexpr(grouping.stages):
                    cute.arch.mbarrier_init(full + stage, 1 + (WARP if grouping.scaled else 0))
                    cute.arch.mbarrier_init(empty + stage, grouping.warps * grouping.cluster)
            cute.arch.mbarrier_init_fence()
        cute.arch.griddepcontrol_wait()  # what was launched before may write anything that is read, or read out
        if warp_number == 0:
            self.count(table, counts, cutlass.Int32(out.shape[1]))
        # Before the first load: blocks that load together write into each other's memory and barriers.
        self.sync()

        if warp_number == grouping.warps:
            self.load(
                b_copy, b_tiles, self.stages(b_room, b_parts), a_copy, a_tiles, a_stages,
                a_scale, scale_stages, full, empty, table, out, counts,
            )  # fmt: skip
        else:
            steps = cutlass.Int32(cute.size(b_tiles, mode=[1]) + grouping.depth - 1) // grouping.depth
            self.multiply(b_stages, a_stages, scale_stages, b_scale, full, empty, table, staging, out, counts, steps)
        # A block's shared memory must outlive what others have yet to signal to it.
        if cutlass.const_expr(grouping.cluster > 1):
            self.sync()

    @cute.jit
    def count(self, table: cute.Tensor, counts: cute.Tensor, most: cutlass.Int32) -> None:
        """Make the table: the tiles of tokens of each expert and of all before it. Each lane does some in a row."""
        lane = cute.arch.lane_idx()
        each = self.table_size // WARP
        total = cutlass.Int32(0)
        for i in cutlass.range_constexpr(each):
            expert = lane * each + i
            if expert < self.experts:
                _, _, rows = self.rows_of(counts, expert, most)
                total += self.grouping.token_clusters(rows)
            table[expert] = total
        before = warp_through(total) - total
        for i in cutlass.range_constexpr(each):
            expert = lane * each + i
            if expert < self.experts:
                table[expert] = table[expert] + before
            else:
                table[expert] = cutlass.Int32(_MOST)

    @cute.jit
    def rows_of(self, counts: cute.Tensor, expert: cutlass.Int32, most: cutlass.Int32) -> Any:
        """The segment of an expert, its first row there, and its rows, which are not more than there are."""
        segment, first, end = expert, cutlass.Int32(0), cutlass.min(counts[expert], most)
        if cutlass.const_expr(self.packed):
            segment, first = cutlass.Int32(0), cutlass.max(end, 0)
            end = cutlass.min(counts[expert + 1], most)
        return segment, first, cutlass.max(end - first, 0)

    @cute.jit
    def locate(self, table: cute.Tensor, number: cutlass.Int32, row_clusters: cutlass.Int32) -> Any:
        """The expert, the tile of its tokens, and the tile of weights that this block has of a cluster's tile."""
        expert = expert_of(table, self.table_size, number // row_clusters, cutlass.Int32)
        before = cutlass.Int32(0)
        if expert > 0:
            before = table[expert - 1]
        tiles = table[expert] - before
        places = self.grouping.place(number - before * row_clusters, tiles, row_clusters, cutlass.min)
        token_tile, row_tile = self.grouping.tile(*places, self.neighbour())
        return expert, token_tile, row_tile, tiles

    @cute.jit
    def load(
        self,
        b_copy: cute.CopyAtom,
        b_tiles: cute.Tensor,
        b_stages: cute.Tensor,
        a_copy: cute.CopyAtom,
        a_tiles: cute.Tensor,
        a_stages: cute.Tensor,
        a_scale: cute.Tensor | None,
        scale_stages: cute.Tensor | None,
        full: cute.Pointer,
        empty: cute.Pointer,
        table: cute.Tensor,
        out: cute.Tensor,
        counts: cute.Tensor,
    ) -> None:
        """Fill the stages, tile after tile. Of the side that a cluster shares, each block loads a part for all."""
        grouping = self.grouping
        first, step, row_clusters, total = self.schedule(table, out)
        receivers = {"mcast_mask": cutlass.Int16((1 << grouping.cluster) - 1)}
        b_shared, a_shared = (receivers if parts > 1 else {} for parts in (grouping.along, grouping.across))
        stage, parity = cutlass.Int32(0), cutlass.Int32(1)  # of a phase that counts as over: all stages are empty
        for number in cutlass.range(first, total, step, unroll=1):
            expert, token_tile, row_tile, tiles = self.locate(table, number, row_clusters)
            weights = cutlass.Int64(_ONCE)
            if tiles > 1:
                weights = cutlass.Int64(_USUAL)
            segment, first_row, _ = self.rows_of(counts, expert, cutlass.Int32(out.shape[1]))
            b_tile = (grouping.columns, grouping.depth)
            b_from = cute.local_tile(b_tiles, b_tile, (row_tile, None, expert))
            b_to, b_from = self.parts(b_copy, b_stages, b_from, self.neighbour(), grouping.along)
            if cutlass.const_expr(grouping.gated):
                others = cute.domain_offset((cute.size(b_tiles, mode=[0]) // 2, 0, 0), b_tiles)
                others = cute.local_tile(others, b_tile, (row_tile, None, expert))
                _, others = self.parts(b_copy, b_stages, others, self.neighbour(), grouping.along)
            a_from = cute.domain_offset((first_row, 0, 0), a_tiles)
            a_from = cute.local_tile(a_from, (grouping.tokens, grouping.depth), (token_tile, None, segment))
            a_to, a_from = self.parts(a_copy, a_stages, a_from, self.neighbour(), grouping.across)
            for k in cutlass.range(cute.size(b_from, mode=[1]), unroll=1):
                cute.arch.mbarrier_wait(empty + stage, parity)
                bar = full + stage
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(bar, grouping.loaded_bytes)
                place = stage * grouping.loads
                policy = {"tma_bar_ptr": bar, "cache_policy": weights, **b_shared}
                cute.copy(b_copy, b_from[None, k], b_to[None, place], **policy)
                if cutlass.const_expr(grouping.gated):
                    cute.copy(b_copy, others[None, k], b_to[None, place + 1], **policy)
                cute.copy(
                    a_copy, a_from[None, k], a_to[None, stage], tma_bar_ptr=bar,
                    cache_policy=cutlass.Int64(_OFTEN), **a_shared,
                )  # fmt: skip
                if cutlass.const_expr(grouping.scaled):
                    token = first_row + token_tile * grouping.tokens
                    self.load_scales(a_scale, scale_stages[None, stage], segment, k, token)
                    cute.arch.cp_async_mbarrier_arrive_noinc(bar)
                stage += 1
                if stage == grouping.stages:
                    stage = cutlass.Int32(0)
                    parity ^= 1
        cute.arch.griddepcontrol_launch_dependents()

    @cute.jit
    def load_scales(
        self,
        a_scale: cute.Tensor,
        stage: cute.Tensor,
        segment: cutlass.Int32,
        k: cutlass.Int32,
        token: cutlass.Int32,
    ) -> None:
        """Copy the scales of a tile of tokens, each lane some; of a token past the last row, that of the last.

        One by one, since the rows of an expert begin anywhere, and not at a multiple of 16 bytes.
        """
        lane = cute.arch.lane_idx()
        one = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
        last_k, last = cutlass.Int32(a_scale.shape[1]) - 1, cutlass.Int32(a_scale.shape[2]) - 1
        row = cutlass.Int64(segment) * a_scale.stride[0] + cutlass.Int64(cutlass.min(k, last_k)) * a_scale.stride[1]
        for first in cutlass.range_constexpr(0, self.grouping.tokens, WARP):
            if first + lane < self.grouping.tokens:
                place = a_scale.iterator + row + cutlass.min(token + first + lane, last)
                to = stage.iterator + first + lane
                cute.copy(one, cute.make_tensor(place, cute.make_layout(1)), cute.make_tensor(to, cute.make_layout(1)))

    @cute.jit
    def multiply(
        self,
        b_stages: cute.Tensor,
        a_stages: cute.Tensor,
        scale_stages: cute.Tensor | None,
        b_scale: cute.Tensor | None,
        full: cute.Pointer,
        empty: cute.Pointer,
        table: cute.Tensor,
        staging: cute.Pointer,
        out: cute.Tensor,
        counts: cute.Tensor,
        steps: cutlass.Int32,
    ) -> None:
        """Multiply each stage as it comes, hand it back, and store each tile when its sums are complete."""
        grouping = self.grouping
        thread, _, _ = cute.arch.thread_idx()
        mma, starting = self.mma(), self.mma()
        mma.set(warpgroup.Field.ACCUMULATE, True)
        starting.set(warpgroup.Field.ACCUMULATE, False)
        group = mma.get_slice(cute.arch.make_warp_uniform(thread // GROUP) * GROUP)
        b_part = mma.make_fragment_A(group.partition_A(b_stages))
        a_part = mma.make_fragment_B(group.partition_B(a_stages))
        shape = mma.partition_shape_C((grouping.rows, grouping.tokens))
        total = cute.make_rmem_tensor(shape, cutlass.Float32)
        first, step, row_clusters, tiles = self.schedule(table, out)
        stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        for number in cutlass.range(first, tiles, step, unroll=1):
            expert, token_tile, row_tile, _ = self.locate(table, number, row_clusters)
            total.fill(0)
            if cutlass.const_expr(grouping.scaled):
                partial = cute.make_rmem_tensor(shape, cutlass.Float32)
                scales, other_scales = self.weight_scales(b_scale, expert, row_tile)
                next_scale, next_other = scales[0], other_scales[0]
                for k in cutlass.range(steps, unroll=1):
                    scale, other = next_scale, next_other
                    ahead = cutlass.min(k + 1, cutlass.Int32(cute.size(scales)) - 1)
                    next_scale, next_other = scales[ahead], other_scales[ahead]
                    cute.arch.mbarrier_wait(full + stage, parity)
                    self.product(starting, mma, partial, b_part, a_part, stage)
                    warpgroup.wait_group(0)
                    self.promote(total, partial, scale_stages[None, stage], scale, other)
                    self.release(empty + stage)
                    stage += 1
                    if stage == grouping.stages:
                        stage = cutlass.Int32(0)
                        parity ^= 1
            else:
                before = stage
                for k in cutlass.range(steps, unroll=1):
                    cute.arch.mbarrier_wait(full + stage, parity)
                    self.product(mma, mma, total, b_part, a_part, stage)
                    warpgroup.wait_group(1)
                    if k > 0:
                        self.release(empty + before)
                    before = stage
                    stage += 1
                    if stage == grouping.stages:
                        stage = cutlass.Int32(0)
                        parity ^= 1
                warpgroup.wait_group(0)
                if steps > 0:
                    self.release(empty + before)
            if cutlass.const_expr(grouping.gated):
                self.gate(total)
            segment, first_row, rows = self.rows_of(counts, expert, cutlass.Int32(out.shape[1]))
            place = cutlass.Int64(segment) * out.stride[0] + cutlass.Int64(first_row) * out.stride[1]
            rows_here = cute.make_tensor(
                out.iterator + cute.assume(place, divby=_VECTOR), cute.select(out.layout, mode=[1, 2])
            )
            self.store(total, staging, rows_here, token_tile * grouping.tokens, row_tile * grouping.columns, rows)

    @cute.jit
    def product(
        self, first: cute.TiledMma, others: cute.TiledMma, sums: cute.Tensor, b: Any, a: Any, stage: cutlass.Int32
    ) -> None:
        """Start the product of one stage, whose first part may add to the sums or take their place."""
        warpgroup.fence()
        for k in cutlass.range_constexpr(cute.size(b, mode=[2])):
            mma = first if k == 0 else others
            cute.gemm(mma, sums, b[None, None, k, stage], a[None, None, k, stage], sums)
        warpgroup.commit_group()

    @cute.jit
    def weight_scales(self, b_scale: cute.Tensor, expert: cutlass.Int32, row_tile: cutlass.Int32) -> Any:
        """The scales of a tile's weights, one for each step, and those of what a gate is multiplied with. A tile past
        the last row has those of the last."""
        last = cutlass.Int32(b_scale.shape[1]) - 1
        block = row_tile * self.grouping.columns // BLOCK
        other = block
        if cutlass.const_expr(self.grouping.gated):
            other += (last + 1) // 2
        first, second = cutlass.min(block, last), cutlass.min(other, last)
        return b_scale[expert, first, None], b_scale[expert, second, None]

    @cute.jit
    def promote(
        self,
        total: cute.Tensor,
        partial: cute.Tensor,
        scales: cute.Tensor,
        scale: cutlass.Float32,
        other: cutlass.Float32,
    ) -> None:
        """Add the sums of one step, each times the scales of its token and of the weights."""
        column = cute.arch.lane_idx() % 4 * 2
        for j in cutlass.range_constexpr(self.grouping.tokens // 8):
            for c in cutlass.range_constexpr(2):
                token = scales[8 * j + column + c]
                for repeat in cutlass.range_constexpr(self.grouping.repeats):
                    factor = token * (other if repeat else scale)
                    for r in cutlass.range_constexpr(2):
                        place = ((c, r, j), repeat, 0)
                        total[place] = total[place] + partial[place] * factor

    @cute.jit
    def gate(self, total: cute.Tensor) -> None:
        """Put ``silu(gate) * other`` in the place of the gate: the second 64 rows of each thread are the others."""
        for j in cutlass.range_constexpr(self.grouping.tokens // 8):
            for i in cutlass.range_constexpr(4):
                place = (i % 2, i // 2, j)
                x = total[place, 0, 0]
                total[place, 0, 0] = (
                    x * total[place, 1, 0] * cute.arch.rcp_approx(1.0 + cute.math.exp(-x, fastmath=True))
                )

    @cute.jit
    def store(
        self,
        total: cute.Tensor,
        staging: cute.Pointer,
        out: cute.Tensor,
        token: cutlass.Int32,
        row: cutlass.Int32,
        count: cutlass.Int32,
    ) -> None:
        """Round a tile, turn it in shared memory so that rows of ``out`` are contiguous, and write 16 bytes at a time.

        Each group has its own 64 rows of weights, its own shared memory, and its own barrier.
        """
        grouping = self.grouping
        thread, _, _ = cute.arch.thread_idx()
        group, mine = thread // GROUP, thread % GROUP
        mine_staged = staging + cute.assume(group * (grouping.staged * PITCH), divby=_VECTOR)
        for repeat in cutlass.range_constexpr(grouping.columns // (64 * grouping.groups)):
            first_row = row + repeat * 128 + group * 64
            for part in cutlass.range_constexpr(grouping.tokens // grouping.staged):
                first_token = token + part * grouping.staged
                if first_token < count:
                    self.meet(group)  # all have read what was staged before
                    self.stage_part(total, mine_staged, repeat, part, mine)
                    self.meet(group)
                    for i in cutlass.range_constexpr(grouping.staged * 64 // (_VECTOR * GROUP)):
                        number = i * GROUP + mine
                        t, r = number // 8, number % 8 * _VECTOR
                        if first_token + t < count and first_row + r < out.shape[1]:
                            held = cute.make_rmem_tensor(_VECTOR, out.element_type)
                            cute.autovec_copy(self.vector(mine_staged, t * PITCH + r), held)
                            place = cutlass.Int64(first_token + t) * out.stride[0] + first_row + r
                            cute.autovec_copy(held, self.vector(out.iterator, place))

    @cute.jit
    def stage_part(
        self,
        total: cute.Tensor,
        staged: cute.Pointer,
        repeat: cutlass.Constexpr,
        part: cutlass.Constexpr,
        mine: cutlass.Int32,
    ) -> None:
        """Store some tokens' results of a warp's 16 rows of weights, turned: 16 tokens at a time, as four matrices."""
        grouping = self.grouping
        turned = cute.make_copy_atom(warp.StMatrix8x8x16bOp(transpose=True, num_matrices=4), staged.dtype)
        token, row = grouping.turned(mine)
        for pair in cutlass.range_constexpr(grouping.staged // 16):
            held = cute.make_rmem_tensor(8, staged.dtype)
            for i in cutlass.range_constexpr(8):
                j = (part * grouping.staged + pair * 16) // 8 + i // 4
                held[i] = total[(i % 2, i // 2 % 2, j), repeat, 0].to(staged.dtype)
            cute.copy(turned, held, self.vector(staged, (pair * 16 + token) * PITCH + row))

    @cute.jit
    def vector(self, pointer: cute.Pointer, offset: Any) -> cute.Tensor:
        """The 16 bytes at an offset that is a multiple of them."""
        return cute.make_tensor(pointer + cute.assume(offset, divby=_VECTOR), cute.make_layout(_VECTOR))

    @cute.jit
    def meet(self, group: cutlass.Int32) -> None:
        """Wait for the threads of this group."""
        cute.arch.barrier(barrier_id=_STAGING + group, number_of_threads=GROUP)

    @cute.jit
    def release(self, empty: cute.Pointer) -> None:
        """One arrival of this warp, at each block that loads into this one's stage."""
        lane = cute.arch.lane_idx()
        if cutlass.const_expr(self.grouping.cluster > 1):
            if lane < self.grouping.cluster:
                cute.arch.mbarrier_arrive(empty, lane)
        else:
            if lane == 0:
                cute.arch.mbarrier_arrive(empty)

    @cute.jit
    def schedule(self, table: cute.Tensor, out: cute.Tensor) -> Any:
        """The first tile of this cluster, how far apart its tiles are, clusters along the weights, and tiles in all."""
        block, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        row_clusters = self.grouping.row_clusters(cutlass.Int32(out.shape[2]))
        cluster = self.grouping.cluster
        return block // cluster, blocks // cluster, row_clusters, table[self.experts - 1] * row_clusters

    @cute.jit
    def neighbour(self) -> cutlass.Int32:
        """This block's number in its cluster."""
        block, _, _ = cute.arch.block_idx()
        return block % self.grouping.cluster

    @cute.jit
    def sync(self) -> None:
        """Wait for the whole cluster, or the block where it is alone. What was written before is seen after."""
        if cutlass.const_expr(self.grouping.cluster > 1):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()

    def mma(self) -> Any:
        """The product of a stage."""
        grouping, major = self.grouping, OperandMajorMode.K
        shape, groups = (64, grouping.tokens), (grouping.groups, 1, 1)
        return hopper.make_trivial_tiled_mma(self.dtype, self.dtype, major, major, cutlass.Float32, groups, shape)

    def copy(self, tensor: Any, layout: Any, tile: tuple[int, int], parts: int) -> Any:
        """How TMA copies tiles of a tensor, or parts of them for all blocks that share them; and the tensor for it."""
        operation = cpasync.CopyBulkTensorTileG2SMulticastOp if parts > 1 else cpasync.CopyBulkTensorTileG2SOp
        one = cute.slice_(layout, (None, None, 0))
        return cpasync.make_tiled_tma_atom(operation(), tensor, one, tile, num_multicast=parts)

    def parts(self, copy: Any, stages: Any, tile: Any, part: Any, parts: int) -> Any:
        """The places in the stages, and the steps of a tile, that one block copies."""
        stages, tile = cute.group_modes(stages, 0, 2), cute.group_modes(tile, 0, 2)
        return cpasync.tma_partition(copy, part, cute.make_layout(parts), stages, tile)

    def stages(self, pointer: Any, layout: Any) -> Any:
        """The stages of one side, in the order that wgmma reads."""
        return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, dtype=self.dtype), layout.outer)

    def scale_layout(self) -> Any:
        """The scales of a tile of tokens in each stage."""
        return cute.make_layout(
            (self.grouping.tokens, self.grouping.stages), stride=(1, self.grouping.scale_bytes // 4)
        )


def compile_grouped_gemm(grouping: Grouping, dtype: Any, out_dtype: Any, experts: int, *, packed: bool) -> Any:
    """Compile for some experts: rows, n, k and all strides but the last are free."""
    rows, blocks_n, blocks_k = (cute.sym_int() for _ in range(3))
    n, k = cute.SymInt(32, divisibility=8), cute.SymInt(32, divisibility=ALIGN * 8 // dtype.width)
    b_rows = cute.SymInt(32, divisibility=16) if grouping.gated else n
    segments = 1 if packed else experts

    def tensor(dtype: Any, *shape: Any) -> Any:
        strides = tuple(cute.sym_int64(divisibility=ALIGN * 8 // dtype.width) for _ in shape[:-1])
        return make_fake_tensor(dtype, shape, (*strides, 1), assumed_align=ALIGN)

    a_scale, b_scale = None, None
    if grouping.scaled:
        a_scale, b_scale = (
            make_fake_tensor(cutlass.Float32, shape, (cute.sym_int64(), cute.sym_int64(), 1), assumed_align=4)
            for shape in ((segments, blocks_k, rows), (experts, blocks_n, blocks_k))
        )
    clusters = HardwareInfo().get_max_active_clusters(grouping.cluster)
    operation = GroupedGemm(grouping, dtype, experts, packed, clusters)
    return cute.compile(
        operation.grouped_gemm_contiguous if packed else operation.grouped_gemm_masked,
        tensor(dtype, segments, rows, k),
        a_scale,
        tensor(dtype, experts, b_rows, k),
        b_scale,
        tensor(out_dtype, segments, rows, n),
        make_fake_tensor(cutlass.Int32, (experts + packed,), (1,), assumed_align=4),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
