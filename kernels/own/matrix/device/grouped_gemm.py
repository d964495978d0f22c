"""Products of many experts on Hopper: persistent blocks take the tiles that have rows one after another.

The weights are the operand of wgmma with 64 rows, the tokens are on the side that takes any multiple of 8: few tokens
cost little. One warp loads by TMA into a ring of stages, also while the others store the previous tile.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as hopper
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor
from cutlass.utils import HardwareInfo, LayoutEnum, SmemAllocator

from precast.kernels.own.device.tma_ring import (
    OFTEN,
    ONCE,
    USUAL,
    TmaRing,
    cluster_barrier,
    swizzled,
    tma_copy,
    tma_parts,
)
from precast.kernels.own.device.vectors import ALIGN
from precast.kernels.own.matrix.blocking import GROUP, WARP
from precast.kernels.own.matrix.device.grouped_result import VECTOR, GroupedResult
from precast.kernels.own.matrix.device.grouped_scales import GroupedScales
from precast.kernels.own.matrix.device.grouped_tiles import GroupedTiles
from precast.kernels.own.matrix.grouping import Grouping


class GroupedGemm:
    """``out[rows of e] = a[rows of e] @ b[e].T`` for each expert, summed in float32, for any sizes.

    ``GroupedTiles`` locates the rows of an expert. Rows of a tile past the expert's last are loaded, and not stored.
    """

    def __init__(self, grouping: Grouping, dtype: Any, experts: int, packed: bool, clusters: int) -> None:
        self.grouping, self.dtype, self.clusters = grouping, dtype, clusters
        self.tiles = GroupedTiles(grouping, experts, packed)
        self.scales, self.result = GroupedScales(grouping), GroupedResult(grouping)

    @cute.jit
    def grouped_gemm(
        self,
        a: cute.Tensor,
        a_scale: cute.Tensor | None,
        b: cute.Tensor,
        b_scale: cute.Tensor | None,
        out: cute.Tensor,
        counts: cute.Tensor,
        stream: Any,
    ) -> None:
        """Launch, unless there is no row or no column."""
        if cute.size(out) > 0:
            self.launch(a, a_scale, b, b_scale, out, counts, stream)

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
        """Launch as many clusters as run at once, or as there can be tiles."""
        grouping = self.grouping
        weights = cute.make_tensor(b.iterator, cute.select(b.layout, mode=[1, 2, 0]))
        tokens = cute.make_tensor(a.iterator, cute.select(a.layout, mode=[1, 2, 0]))
        tile = (grouping.rows, grouping.tokens, grouping.depth)
        b_layout = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, self.dtype, grouping.stages)
        # The same memory as parts that are loaded one by one: the gate's rows and the others are not contiguous.
        part = (grouping.columns, *tile[1:])
        b_parts = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, part, self.dtype, grouping.stages * grouping.loads)
        a_layout = hopper.make_smem_layout_b(LayoutEnum.ROW_MAJOR, tile, self.dtype, grouping.stages)
        b_copy, b_tiles = tma_copy(weights, b_parts, (grouping.columns, grouping.depth), grouping.along)
        a_copy, a_tiles = tma_copy(tokens, a_layout, (grouping.tokens, grouping.depth), grouping.across)
        row_clusters = grouping.row_clusters(cutlass.Int32(out.shape[2]))
        tiles = grouping.token_clusters(cutlass.Int32(out.shape[1])) * row_clusters * self.tiles.experts
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
        ring = TmaRing.allocate(shared, grouping.stages, sharing=grouping.cluster)
        table = self.tiles.table(shared)
        staging = cute.recast_ptr(shared.allocate(grouping.staged_bytes, byte_alignment=128), dtype=out.element_type)
        depth_bytes = grouping.depth * grouping.width
        b_room = shared.allocate(grouping.stages * grouping.rows * depth_bytes, byte_alignment=1024)
        b_stages = swizzled(b_room, b_layout, self.dtype)
        a_room = shared.allocate(grouping.stages * grouping.tokens * depth_bytes, byte_alignment=1024)
        a_stages = swizzled(a_room, a_layout, self.dtype)
        scale_stages = None
        if cutlass.const_expr(grouping.scaled):
            scale_stages = self.scales.stages(shared)
        if warp_number == grouping.warps:
            cpasync.prefetch_descriptor(b_copy)
            cpasync.prefetch_descriptor(a_copy)
        if warp_number == 0:
            with cute.arch.elect_one():
                ring.initialize(1 + (WARP if grouping.scaled else 0), grouping.warps)
            cute.arch.mbarrier_init_fence()
        cute.arch.griddepcontrol_wait()  # the previous kernel may still write what is read here, or read out
        if warp_number == 0:
            self.tiles.count(table, counts, cutlass.Int32(out.shape[1]))
        # Before the first load: a multicast writes to the shared memory and the barriers of other blocks. For the block
        # itself, this publishes the barriers and the table.
        cluster_barrier(grouping.cluster)

        if warp_number == grouping.warps:
            self.load(
                b_copy, b_tiles, swizzled(b_room, b_parts, self.dtype), a_copy, a_tiles, a_stages,
                a_scale, scale_stages, ring, table, out, counts,
            )  # fmt: skip
        else:
            steps = cutlass.Int32(cute.size(b_tiles, mode=[1]) + grouping.depth - 1) // grouping.depth
            self.multiply(b_stages, a_stages, scale_stages, b_scale, ring, table, staging, out, counts, steps)
        # No block may exit while others still arrive at the barriers in its shared memory.
        if cutlass.const_expr(grouping.cluster > 1):
            cluster_barrier(grouping.cluster)

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
        ring: Any,
        table: cute.Tensor,
        out: cute.Tensor,
        counts: cute.Tensor,
    ) -> None:
        """Fill the stages, tile after tile. Each block loads a part of the side that the cluster shares, for all
        blocks.

        The scales are copied by cp.async, 4 bytes at a time. Its arrival is ``noinc``: each lane's copies count as one
        of the arrivals that the barrier was initialized with, beside that of the TMA loads."""
        grouping = self.grouping
        first, step, row_clusters, total = self.tiles.schedule(table, out)
        receivers = {"mcast_mask": cutlass.Int16((1 << grouping.cluster) - 1)}
        b_shared, a_shared = (receivers if parts > 1 else {} for parts in (grouping.along, grouping.across))
        stage, parity = (
            cutlass.Int32(0),
            cutlass.Int32(1),
        )  # all stages are empty: see TmaRing.wait_empty
        for number in cutlass.range(first, total, step, unroll=1):
            expert, token_tile, row_tile, tiles = self.tiles.locate(table, number, row_clusters)
            weights = cutlass.Int64(ONCE)
            if tiles > 1:
                weights = cutlass.Int64(USUAL)
            segment, first_row, _ = self.tiles.rows_of(counts, expert, cutlass.Int32(out.shape[1]))
            b_tile = (grouping.columns, grouping.depth)
            b_gmem_tiles = cute.local_tile(b_tiles, b_tile, (row_tile, None, expert))
            b_smem_tiles, b_gmem_tiles = tma_parts(
                b_copy, b_stages, b_gmem_tiles, self.tiles.cta_rank(), grouping.along
            )
            if cutlass.const_expr(grouping.gated):
                others = cute.domain_offset((cute.size(b_tiles, mode=[0]) // 2, 0, 0), b_tiles)
                others = cute.local_tile(others, b_tile, (row_tile, None, expert))
                _, others = tma_parts(b_copy, b_stages, others, self.tiles.cta_rank(), grouping.along)
            a_gmem_tiles = cute.domain_offset((first_row, 0, 0), a_tiles)
            a_gmem_tiles = cute.local_tile(a_gmem_tiles, (grouping.tokens, grouping.depth), (token_tile, None, segment))
            a_smem_tiles, a_gmem_tiles = tma_parts(
                a_copy, a_stages, a_gmem_tiles, self.tiles.cta_rank(), grouping.across
            )
            for k in cutlass.range(cute.size(b_gmem_tiles, mode=[1]), unroll=1):
                ring.wait_empty(stage, parity)
                ring.expect(stage, grouping.loaded_bytes)
                bar = ring.full + stage
                first_load = stage * grouping.loads
                policy = {"tma_bar_ptr": bar, "cache_policy": weights, **b_shared}
                cute.copy(b_copy, b_gmem_tiles[None, k], b_smem_tiles[None, first_load], **policy)
                if cutlass.const_expr(grouping.gated):
                    cute.copy(b_copy, others[None, k], b_smem_tiles[None, first_load + 1], **policy)
                cute.copy(
                    a_copy, a_gmem_tiles[None, k], a_smem_tiles[None, stage], tma_bar_ptr=bar,
                    cache_policy=cutlass.Int64(OFTEN), **a_shared,
                )  # fmt: skip
                if cutlass.const_expr(grouping.scaled):
                    token = first_row + token_tile * grouping.tokens
                    self.scales.load(a_scale, scale_stages[None, stage], segment, k, token)
                    cute.arch.cp_async_mbarrier_arrive_noinc(bar)
                stage, parity = ring.after(stage, parity)
        cute.arch.griddepcontrol_launch_dependents()

    @cute.jit
    def multiply(
        self,
        b_stages: cute.Tensor,
        a_stages: cute.Tensor,
        scale_stages: cute.Tensor | None,
        b_scale: cute.Tensor | None,
        ring: Any,
        table: cute.Tensor,
        staging: cute.Pointer,
        out: cute.Tensor,
        counts: cute.Tensor,
        steps: cutlass.Int32,
    ) -> None:
        """Multiply each stage as it arrives, release it, and store each tile when its sums are complete.

        With scales, the sums of a stage are complete before they are scaled; without, one step stays in flight.
        """
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
        first, step, row_clusters, tiles = self.tiles.schedule(table, out)
        stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        for number in cutlass.range(first, tiles, step, unroll=1):
            expert, token_tile, row_tile, _ = self.tiles.locate(table, number, row_clusters)
            total.fill(0)
            if cutlass.const_expr(grouping.scaled):
                partial = cute.make_rmem_tensor(shape, cutlass.Float32)
                scales, other_scales = self.scales.of_weights(b_scale, expert, row_tile)
                next_scale, next_other = scales[0], other_scales[0]
                for k in cutlass.range(steps, unroll=1):
                    scale, other = next_scale, next_other
                    ahead = cutlass.min(k + 1, cutlass.Int32(cute.size(scales)) - 1)
                    next_scale, next_other = scales[ahead], other_scales[ahead]
                    ring.wait_full(stage, parity)
                    self.product(starting, mma, partial, b_part, a_part, stage)
                    warpgroup.wait_group(0)
                    self.scales.promote(total, partial, scale_stages[None, stage], scale, other)
                    ring.release(stage)
                    stage, parity = ring.after(stage, parity)
            else:
                previous = stage
                for k in cutlass.range(steps, unroll=1):
                    ring.wait_full(stage, parity)
                    self.product(mma, mma, total, b_part, a_part, stage)
                    warpgroup.wait_group(1)
                    if k > 0:
                        ring.release(previous)
                    previous = stage
                    stage, parity = ring.after(stage, parity)
                warpgroup.wait_group(0)
                if steps > 0:
                    ring.release(previous)
            if cutlass.const_expr(grouping.gated):
                self.result.gate(total)
            segment, first_row, rows = self.tiles.rows_of(counts, expert, cutlass.Int32(out.shape[1]))
            offset = cutlass.Int64(segment) * out.stride[0] + cutlass.Int64(first_row) * out.stride[1]
            rows_here = cute.make_tensor(
                out.iterator + cute.assume(offset, divby=VECTOR), cute.select(out.layout, mode=[1, 2])
            )
            self.result.store(
                total, staging, rows_here, token_tile * grouping.tokens, row_tile * grouping.columns, rows
            )

    @cute.jit
    def product(
        self, first: cute.TiledMma, others: cute.TiledMma, sums: cute.Tensor, b: Any, a: Any, stage: cutlass.Int32
    ) -> None:
        """Start the product of one stage. Its first instruction may overwrite the sums instead of adding to them."""
        warpgroup.fence()
        for k in cutlass.range_constexpr(cute.size(b, mode=[2])):
            mma = first if k == 0 else others
            cute.gemm(mma, sums, b[None, None, k, stage], a[None, None, k, stage], sums)
        warpgroup.commit_group()

    def mma(self) -> Any:
        """The product of a stage."""
        grouping, major = self.grouping, OperandMajorMode.K
        shape, groups = (64, grouping.tokens), (grouping.groups, 1, 1)
        return hopper.make_trivial_tiled_mma(self.dtype, self.dtype, major, major, cutlass.Float32, groups, shape)


def compile_grouped_gemm(grouping: Grouping, dtype: Any, out_dtype: Any, experts: int, *, packed: bool) -> Any:
    """Compile for a number of experts: rows, n, k and all strides except the last are dynamic."""
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
        operation.grouped_gemm,
        tensor(dtype, segments, rows, k),
        a_scale,
        tensor(dtype, experts, b_rows, k),
        b_scale,
        tensor(out_dtype, segments, rows, n),
        make_fake_tensor(cutlass.Int32, (experts + packed,), (1,), assumed_align=4),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
