"""``gemm`` on Hopper: blocks of a cluster load the sides of their tiles together, and may split the k of one tile.

With the weights as the first operand of wgmma, which has 64 rows, the tokens are on the side that takes any multiple of
8: few tokens then cost little, and the time is that of reading the weights. Blocks that split k fill a GPU that has
more SMs than the result has tiles.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as hopper
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.runtime import make_fake_stream
from cutlass.utils import HardwareInfo, LayoutEnum, SmemAllocator

from precast.kernels.own.device.tma_ring import TmaRing, cluster_barrier, swizzled
from precast.kernels.own.matrix.blocking import GROUP, WARP, Blocking
from precast.kernels.own.matrix.device.gemm_sm90a.loading import GemmLoading, tiles_of
from precast.kernels.own.matrix.device.gemm_sm90a.result import CLUSTER_BARRIERS, GemmResult

_TEAMS = 8  # the named barrier of the first team of warps; those of groups have smaller numbers


class GemmSm90a:
    """``out = a @ b`` with both k-major, summed in float32, for any sizes.

    One warp loads tiles by TMA into a ring of stages; the others multiply. Without a split of k, blocks are persistent
    and take one tile after another: the first stages of the next are loaded while a tile is stored. With pingpong, one
    of two teams of warps already multiplies the next tile then. Blocks with slices of one k have one tile: they send
    each other their sums, and each adds up a part of the tile, always in the same order. So the result has the same
    bits each time, and no workspace in global memory is needed.
    """

    def __init__(self, blocking: Blocking, dtype: Any, out_dtype: Any, clusters: int, *, weights: bool) -> None:
        self.blocking, self.dtype, self.clusters = blocking, dtype, clusters
        self.loading, self.result = GemmLoading(blocking, weights=weights), GemmResult(blocking, out_dtype)

    @cute.jit
    def gemm(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch, unless the result is empty."""
        if cute.size(out) > 0:
            self.launch(a, b, out, stream)

    @cute.jit
    def launch(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch as many clusters as run at once, or as there are tiles; a cluster for each tile where k is split."""
        blocking, major = self.blocking, OperandMajorMode.K
        first, second = a, cute.make_tensor(b.iterator, cute.select(b.layout, mode=[1, 0]))
        if cutlass.const_expr(blocking.swap):
            first, second = second, first
        mma = hopper.make_trivial_tiled_mma(
            self.dtype, self.dtype, major, major, cutlass.Float32, (blocking.groups, 1, 1), (64, blocking.second)
        )
        tile = (blocking.first, blocking.second, blocking.depth)
        first_layout = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, self.dtype, blocking.stages)
        second_layout = hopper.make_smem_layout_b(LayoutEnum.ROW_MAJOR, tile, self.dtype, blocking.stages)
        first_copy, first_tiles = self.loading.copy(first, first_layout, blocking.first, blocking.first_multicast)
        second_copy, second_tiles = self.loading.copy(second, second_layout, blocking.second, blocking.second_multicast)
        clusters = blocking.clusters(cutlass.Int32(out.shape[0]), cutlass.Int32(out.shape[1]))
        if cutlass.const_expr(blocking.persistent):
            clusters = cutlass.min(clusters, self.clusters)
        self.kernel(
            mma, first_copy, first_tiles, first_layout, second_copy, second_tiles, second_layout, out
        ).launch(
            grid=[clusters * blocking.cluster, 1, 1],
            block=[blocking.threads, 1, 1],
            cluster=[blocking.cluster, 1, 1],
            stream=stream,
            min_blocks_per_mp=blocking.residents,
            use_pdl=True,
        )  # fmt: skip

    @cute.kernel
    def kernel(
        self,
        mma: cute.TiledMma,
        first_copy: cute.CopyAtom,
        first_tiles: cute.Tensor,
        first_layout: cute.ComposedLayout,
        second_copy: cute.CopyAtom,
        second_tiles: cute.Tensor,
        second_layout: cute.ComposedLayout,
        out: cute.Tensor,
    ) -> None:
        """One block: a warp that loads, and those that multiply and store."""
        blocking = self.blocking
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        block, _, _ = cute.arch.block_idx()
        k_slice, cta_rank = blocking.rank(block)
        steps = blocking.steps(cutlass.Int32(cute.size(first_tiles, mode=[1])), k_slice)

        shared = SmemAllocator()
        ring = TmaRing.allocate(shared, blocking.stages, sharing=blocking.readers, rank_stride=blocking.split)
        buffers = shared.allocate(blocking.buffer_bytes, byte_alignment=1024)
        first_stages = swizzled(buffers, first_layout, self.dtype)
        second_stages = swizzled(buffers + blocking.first_bytes, second_layout, self.dtype)
        if warp == blocking.warps:
            cpasync.prefetch_descriptor(first_copy)
            cpasync.prefetch_descriptor(second_copy)
        if warp == 0:
            with cute.arch.elect_one():
                ring.initialize(1, blocking.team_warps)
            cute.arch.mbarrier_init_fence()
        # Before the first load: a multicast writes to the shared memory and the barriers of other blocks, which must
        # have started and initialized them. The fence above has published the barriers: a relaxed arrival is enough.
        cluster_barrier(blocking.cluster if blocking.sharing > 1 else 1, relaxed=True)

        loading = (
            first_copy, first_tiles, first_stages, second_copy, second_tiles, second_stages,
            ring, steps, k_slice, cta_rank, out,
        )  # fmt: skip
        multiplying = (mma, first_stages, second_stages, ring, steps, k_slice, cta_rank, buffers, out)
        if warp < blocking.warps:
            # Each group of four warps must execute setmaxnreg as a whole. The increase waits for the decrease below.
            if cutlass.const_expr(blocking.reallocates_registers):
                cute.arch.setmaxregister_increase(blocking.registers)
            self.multiply(*multiplying)
        else:
            if cutlass.const_expr(blocking.reallocates_registers):
                cute.arch.setmaxregister_decrease(blocking.loader_registers)
            if warp == blocking.warps:
                self.loading.load(*loading)
            # All threads of a cluster must arrive at its barriers: the loading warps do so for those in store_shared.
            if cutlass.const_expr(not blocking.persistent):
                for _ in cutlass.range_constexpr(CLUSTER_BARRIERS):
                    cluster_barrier(blocking.cluster)

    @cute.jit
    def multiply(
        self,
        mma: cute.TiledMma,
        first_stages: cute.Tensor,
        second_stages: cute.Tensor,
        ring: Any,
        steps: cutlass.Int32,
        k_slice: cutlass.Int32,
        cta_rank: cutlass.Int32,
        buffers: cute.Pointer,
        out: cute.Tensor,
    ) -> None:
        """Multiply each stage as it arrives, release the previous one, and store each tile when its sums are complete.

        One step's products stay in flight: a stage is released when the next step was issued and its own has completed.
        The last stage of a tile is released after the result was staged in it. Each group of warps stages in the rows
        of the first side that no other group reads.
        """
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        start, stride, end, token_clusters = tiles_of(blocking, out)
        group, team = blocking.group(cute.arch.make_warp_uniform(thread // GROUP))
        sliced = mma.get_slice(group * GROUP)
        first = mma.make_fragment_A(sliced.partition_A(first_stages))
        second = mma.make_fragment_B(sliced.partition_B(second_stages))
        total = cute.make_rmem_tensor(mma.partition_shape_C((blocking.first, blocking.second)), cutlass.Float32)
        mma.set(warpgroup.Field.ACCUMULATE, True)
        stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        if cutlass.const_expr(blocking.teams > 1):
            stage, parity = ring.later(stage, parity, team * steps)
        cute.arch.griddepcontrol_wait()  # before the first store: where k is 0, no load has waited for it
        for number in cutlass.range(start + team * stride, end, stride * blocking.teams, unroll=1):
            token_tile, row_tile = blocking.position(number, cta_rank, token_clusters)
            total.fill(0)
            if cutlass.const_expr(blocking.teams > 1):  # noqa: SIM102 (known when it is compiled)
                if number != start:
                    self.wait_for_other_team(team)
            previous = stage
            for step in cutlass.range(steps, unroll=1):
                ring.wait_full(stage, parity)
                warpgroup.fence()
                for k in cutlass.range_constexpr(cute.size(first, mode=[2])):
                    cute.gemm(mma, total, first[None, None, k, stage], second[None, None, k, stage], total)
                warpgroup.commit_group()
                warpgroup.wait_group(1)
                if step > 0:
                    self.release(ring, previous, k_slice, cta_rank)
                previous = stage
                stage, parity = ring.after(stage, parity)
            if cutlass.const_expr(blocking.teams > 1):  # noqa: SIM102 (known when it is compiled)
                if number + stride < end:
                    self.signal_other_team(team)
            warpgroup.wait_group(0)
            if cutlass.const_expr(blocking.persistent):
                last = cute.assume(previous * blocking.first_stage_bytes, divby=GROUP)
                self.result.store_alone(total, buffers + last, out, token_tile, row_tile)
                # Order the generic reads and writes of the staged result before TMA, in the async proxy, overwrites it.
                cute.arch.fence_view_async_shared()
                if steps > 0:
                    self.release(ring, previous, k_slice, cta_rank)
            else:
                self.result.store_shared(total, buffers, out, k_slice, cta_rank, token_tile, row_tile)
            if cutlass.const_expr(blocking.teams > 1):
                stage, parity = ring.later(stage, parity, steps)  # skip the stages of the other team's tile

    @cute.jit
    def wait_for_other_team(self, team: cutlass.Int32) -> None:
        """Wait until the other team has passed all stages of the previous tile. Without this, a team could wait for a
        stage two rounds ahead, whose parity equals that of the completed round: the wait would return at once."""
        cute.arch.barrier(barrier_id=_TEAMS + team, number_of_threads=self.blocking.warps * WARP)

    @cute.jit
    def signal_other_team(self, team: cutlass.Int32) -> None:
        """Let the other team start with the next tile."""
        cute.arch.barrier_arrive(barrier_id=_TEAMS + 1 - team, number_of_threads=self.blocking.warps * WARP)

    @cute.jit
    def release(self, ring: Any, stage: cutlass.Int32, k_slice: cutlass.Int32, cta_rank: cutlass.Int32) -> None:
        """This warp has read a stage: arrive at the ``empty`` barrier of each block that loads into it."""
        blocking = self.blocking
        if cutlass.const_expr(blocking.along > 1 and blocking.across > 1):
            lane = cute.arch.lane_idx()
            same_weights = lane // blocking.along == cta_rank // blocking.along
            same_tokens = lane % blocking.along == cta_rank % blocking.along
            if lane < blocking.sharing and (same_weights or same_tokens):
                cute.arch.mbarrier_arrive(ring.empty + stage, k_slice + lane * blocking.split)
        else:
            ring.release(stage, k_slice)


def compile_gemm(blocking: Blocking, a: Any, b: Any, out: Any, *, weights: bool) -> Any:
    """Compile for placeholders of the caller's tensors."""
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    clusters = (
        HardwareInfo().get_max_active_clusters(blocking.cluster) * blocking.residents if blocking.persistent else 0
    )
    operation = GemmSm90a(blocking, a.element_type, out.element_type, clusters, weights=weights)
    return cute.compile(operation.gemm, a, b, out, stream, options="--enable-tvm-ffi")
