"""``gemm`` on Hopper: a block multiplies one tile, and may share its k with others of its cluster.

With the weights first, which is the side of wgmma that takes 64, tokens stand on the side that takes any multiple of
8: so few tokens cost little, and the time is that of reading the weights. Blocks that share k fill a GPU that has
more SMs than the result has tiles.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as hopper
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.runtime import make_fake_stream
from cutlass.utils import LayoutEnum, SmemAllocator

from precast.kernels.own.device.tma_ring import OFTEN, ONCE, USUAL, TmaRing, meet, swizzled, tma_copy, tma_parts
from precast.kernels.own.matrix.blocking import GROUP, WARP, Blocking
from precast.kernels.own.matrix.device.gemm_result import MULTIPLIERS, GemmResult


class GemmSm90a:
    """``out = a @ b`` with both k-major, summed in float32, for any sizes.

    One warp loads tiles by TMA into a ring of stages; the others multiply. Then the blocks that have shares of one k
    send each other their sums, and each adds up a part of the tile, always in the same order. So the result is the
    same each time, and no memory but the result is written.
    """

    def __init__(self, blocking: Blocking, dtype: Any, *, weights: bool = False) -> None:
        self.blocking, self.dtype, self.weights = blocking, dtype, weights

    @cute.jit
    def gemm(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch; an empty result takes none."""
        if cute.size(out) > 0:
            self.launch(a, b, out, stream)

    @cute.jit
    def launch(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """One block for each tile of the result and share of k."""
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
        first_copy, first_tiles = tma_copy(first, first_layout, (blocking.first, blocking.depth), blocking.first_parts)
        second_copy, second_tiles = tma_copy(
            second, second_layout, (blocking.second, blocking.depth), blocking.second_parts
        )
        grid = blocking.grid(cutlass.Int32(out.shape[0]), cutlass.Int32(out.shape[1]))
        self.kernel(
            mma, first_copy, first_tiles, first_layout, second_copy, second_tiles, second_layout, out
        ).launch(
            grid=[grid, 1, 1],
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
        """The share of one block: some steps of k of one tile, then the part of it that it adds up and stores."""
        blocking = self.blocking
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        block, _, _ = cute.arch.block_idx()
        token_clusters = blocking.token_clusters(cutlass.Int32(out.shape[0]))
        share, neighbour, token_tile, row_tile = blocking.position(block, token_clusters)
        steps = blocking.steps(cutlass.Int32(cute.size(first_tiles, mode=[1])), share)

        shared = SmemAllocator()
        ring = TmaRing.allocate(shared, blocking.stages, sharing=blocking.sharing, apart=blocking.split)
        buffers = shared.allocate(blocking.buffer_bytes, byte_alignment=1024)
        first_stages = swizzled(buffers, first_layout, self.dtype)
        second_stages = swizzled(buffers + blocking.first_bytes, second_layout, self.dtype)
        if warp == blocking.warps:
            cpasync.prefetch_descriptor(first_copy)
            cpasync.prefetch_descriptor(second_copy)
        if warp == 0:
            with cute.arch.elect_one():
                ring.initialize(1, blocking.warps)
            cute.arch.mbarrier_init_fence()
        # Before the first load: blocks that load together write into each other's memory and barriers.
        meet(blocking.cluster if blocking.sharing > 1 else 1)

        loading = (
            first_copy, first_tiles, first_stages, second_copy, second_tiles, second_stages,
            ring, steps, share, neighbour, token_tile, row_tile, token_clusters,
        )  # fmt: skip
        multiplying = (mma, first_stages, second_stages, ring, steps, share)
        finishing = (buffers, out, share, neighbour, token_tile, row_tile)
        if warp < blocking.warps:
            if cutlass.const_expr(blocking.lends):  # each group as a whole gives registers away, or takes them for good
                cute.arch.setmaxregister_increase(blocking.registers)
            self.finish(self.multiply(*multiplying), *finishing)
        else:
            if cutlass.const_expr(blocking.lends):
                cute.arch.setmaxregister_decrease(blocking.kept)
            if warp == blocking.warps:
                self.load(*loading)
            for _ in cutlass.range_constexpr(blocking.meetings):
                meet(blocking.cluster)

    @cute.jit
    def finish(
        self,
        total: cute.Tensor,
        memory: cute.Pointer,
        out: cute.Tensor,
        share: cutlass.Int32,
        neighbour: cutlass.Int32,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
    ) -> None:
        """Store the result, which takes the place of the stages: no warp may still be multiplying.

        A block's shared memory must outlive what others have yet to signal to it.
        """
        blocking = self.blocking
        alone = blocking.sharing > 1 and blocking.split == 1
        cute.arch.griddepcontrol_wait()  # without any k, no load has waited for what was launched before
        cute.arch.barrier(barrier_id=MULTIPLIERS, number_of_threads=blocking.warps * WARP)
        if cutlass.const_expr(alone):
            cute.arch.cluster_arrive()
        GemmResult(blocking, out.element_type).finish(total, memory, out, share, neighbour, token_tile, row_tile)
        if cutlass.const_expr(alone):
            cute.arch.cluster_wait()

    @cute.jit
    def load(
        self,
        first_copy: cute.CopyAtom,
        first_tiles: cute.Tensor,
        first_stages: cute.Tensor,
        second_copy: cute.CopyAtom,
        second_tiles: cute.Tensor,
        second_stages: cute.Tensor,
        ring: Any,
        steps: cutlass.Int32,
        share: cutlass.Int32,
        neighbour: cutlass.Int32,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
        token_clusters: cutlass.Int32,
    ) -> None:
        """Fill the stages. Each block loads a part of a side that several need. Weights are there
        before anything else is, so those of the first stages are loaded while the kernel before still runs.

        The blocks that share k take every ``split``-th step, so that together they read long pieces of each row.
        """
        blocking = self.blocking
        first_tile, second_tile = token_tile, row_tile
        if cutlass.const_expr(blocking.swap):
            first_tile, second_tile = row_tile, token_tile
        weights = cutlass.Int64(ONCE)
        if token_clusters > 1:
            weights = cutlass.Int64(USUAL)
        tokens = cutlass.Int64(OFTEN)
        first_policy, second_policy = tokens, weights
        if cutlass.const_expr(blocking.swap):
            first_policy, second_policy = weights, tokens
        from_first = cute.local_tile(first_tiles, (blocking.first, blocking.depth), (first_tile, None))
        from_second = cute.local_tile(second_tiles, (blocking.second, blocking.depth), (second_tile, None))
        first_to, first_from = tma_parts(first_copy, first_stages, from_first, neighbour, blocking.first_parts)
        second_to, second_from = tma_parts(second_copy, second_stages, from_second, neighbour, blocking.second_parts)
        receivers = cutlass.Int16(blocking.receivers) << cutlass.Int16(share)
        first_side = (first_copy, first_from, first_to, first_policy, blocking.first_parts)
        second_side = (second_copy, second_from, second_to, second_policy, blocking.second_parts)
        b_side, a_side = (first_side, second_side) if blocking.swap else (second_side, first_side)
        stage, parity = cutlass.Int32(0), cutlass.Int32(1)  # of a phase that counts as over: all stages are empty
        ahead = cutlass.Int32(0)
        if cutlass.const_expr(self.weights):
            ahead = cutlass.min(steps, blocking.stages)
            for step in cutlass.range(ahead, unroll=1):
                ring.expect(step, blocking.stage_bytes)
                self.fill((b_side,), ring.full, step, share + step * blocking.split, receivers)
        cute.arch.griddepcontrol_wait()  # what was launched before may still be writing a, or b, or reading out
        if cutlass.const_expr(self.weights):
            for step in cutlass.range(ahead, unroll=1):
                self.fill((a_side,), ring.full, step, share + step * blocking.split, receivers)
            if ahead == blocking.stages:
                parity = cutlass.Int32(0)
        for step in cutlass.range(ahead, steps, unroll=1):
            ring.wait_empty(stage, parity)
            ring.expect(stage, blocking.stage_bytes)
            self.fill((first_side, second_side), ring.full, stage, share + step * blocking.split, receivers)
            stage, parity = ring.after(stage, parity)
        cute.arch.griddepcontrol_launch_dependents()

    def fill(self, sides: Any, full: Any, stage: Any, k: Any, receivers: Any) -> None:
        """Copy a step of some sides into a stage, for the blocks that need it."""
        for copy, source, to, policy, parts in sides:
            mask = {"mcast_mask": receivers} if parts > 1 else {}
            cute.copy(copy, source[None, k], to[None, stage], tma_bar_ptr=full + stage, cache_policy=policy, **mask)

    @cute.jit
    def multiply(
        self,
        mma: cute.TiledMma,
        first_stages: cute.Tensor,
        second_stages: cute.Tensor,
        ring: Any,
        steps: cutlass.Int32,
        share: cutlass.Int32,
    ) -> cute.Tensor:
        """The sums: multiply each stage as it comes, and hand the one before back."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        group = mma.get_slice(cute.arch.make_warp_uniform(thread // GROUP) * GROUP)
        first = mma.make_fragment_A(group.partition_A(first_stages))
        second = mma.make_fragment_B(group.partition_B(second_stages))
        total = cute.make_rmem_tensor(mma.partition_shape_C((blocking.first, blocking.second)), cutlass.Float32)
        total.fill(0)
        mma.set(warpgroup.Field.ACCUMULATE, True)
        stage, parity, before = cutlass.Int32(0), cutlass.Int32(0), cutlass.Int32(0)
        for step in cutlass.range(steps, unroll=1):
            ring.wait_full(stage, parity)
            warpgroup.fence()
            for k in cutlass.range_constexpr(cute.size(first, mode=[2])):
                cute.gemm(mma, total, first[None, None, k, stage], second[None, None, k, stage], total)
            warpgroup.commit_group()
            warpgroup.wait_group(1)
            if step > 0:
                ring.release(before, share)
            before = stage
            stage, parity = ring.after(stage, parity)
        warpgroup.wait_group(0)
        return total


def compile_gemm(blocking: Blocking, a: Any, b: Any, out: Any, *, weights: bool) -> Any:
    """Compile for tensors that stand for the caller's."""
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    operation = GemmSm90a(blocking, a.element_type, weights=weights)
    return cute.compile(operation.gemm, a, b, out, stream, options="--enable-tvm-ffi")
