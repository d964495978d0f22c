"""``gemm`` on Hopper for few rows: blocks multiply a tile of weights by the tokens, and share k within a cluster.

The product is computed transposed, ``out.T = b.T @ a.T``: weight rows stand on the side of wgmma that takes 64 of them,
and tokens on the side that takes any multiple of 8. So few tokens cost little, and the time is that of reading the
weights.
"""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as hopper
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.runtime import make_fake_stream
from cutlass.utils import LayoutEnum, SmemAllocator

from precast.kernels.own.blocking import GROUP, WARP, Blocking

# How long the L2 cache keeps what TMA loads, in its own encoding: evicted first, as usual, last.
_ONCE, _USUAL, _OFTEN = 0x12F0000000000000, 0x1000000000000000, 0x14F0000000000000
_CONSUMERS = 1  # the number of the barrier among the warps that multiply; 0 is the whole block's


class GemmSm90a:
    """``out = a @ b`` with both k-major, summed in float32, for any sizes.

    One warp loads tiles by TMA into a ring of stages; the others multiply. Then each block leaves its sums in its
    shared memory, and the blocks of a cluster that have shares of one k add them up, each for some of the tokens, in
    the order of their ranks. So the result is the same each time, and no memory but the result is written.
    """

    def __init__(self, blocking: Blocking, dtype: Any) -> None:
        self.blocking, self.dtype = blocking, dtype

    @cute.jit
    def gemm(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch; an empty result takes none."""
        if cute.size(out) > 0:
            self.launch(a, b, out, stream)

    @cute.jit
    def launch(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """One cluster for each tile of the result, those of the same weights one after another."""
        blocking, dtype = self.blocking, self.dtype
        weights = cute.make_tensor(b.iterator, cute.select(b.layout, mode=[1, 0]))
        major = OperandMajorMode.K
        mma = hopper.make_trivial_tiled_mma(
            dtype, dtype, major, major, cutlass.Float32, (blocking.groups, 1, 1), tiler_mn=(64, blocking.tokens)
        )
        tile = (blocking.rows, blocking.tokens, blocking.depth)
        w_layout = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, dtype, blocking.stages)
        x_layout = hopper.make_smem_layout_b(LayoutEnum.ROW_MAJOR, tile, dtype, blocking.stages)
        w_copy, w_tiles = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SOp(),
            weights,
            cute.slice_(w_layout, (None, None, 0)),
            (blocking.rows, blocking.depth),
        )
        x_copy, x_tiles = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SMulticastOp() if blocking.sharing > 1 else cpasync.CopyBulkTensorTileG2SOp(),
            a,
            cute.slice_(x_layout, (None, None, 0)),
            (blocking.tokens, blocking.depth),
            num_multicast=blocking.sharing,
        )
        grid = blocking.grid(cutlass.Int32(out.shape[0]), cutlass.Int32(out.shape[1]))
        self.kernel(mma, w_copy, w_tiles, x_copy, x_tiles, out, w_layout, x_layout).launch(
            grid=[grid, 1, 1],
            block=[blocking.threads, 1, 1],
            cluster=[blocking.cluster, 1, 1],
            stream=stream,
            min_blocks_per_mp=blocking.residents,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mma: cute.TiledMma,
        w_copy: cute.CopyAtom,
        w_tiles: cute.Tensor,
        x_copy: cute.CopyAtom,
        x_tiles: cute.Tensor,
        out: cute.Tensor,
        w_layout: cute.ComposedLayout,
        x_layout: cute.ComposedLayout,
    ) -> None:
        """The share of one block: some steps of k of one tile, then the tokens that it adds up and stores."""
        blocking = self.blocking
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        block, _, _ = cute.arch.block_idx()
        rank = block % blocking.split
        neighbour = block // blocking.split % blocking.sharing
        token_tiles = blocking.token_tiles(cutlass.Int32(out.shape[0]))
        row_tile = block // blocking.cluster // token_tiles * blocking.sharing + neighbour
        token_tile = block // blocking.cluster % token_tiles
        steps = blocking.steps(cutlass.Int32(cute.size(x_tiles, mode=[1])), rank)

        shared = SmemAllocator()
        full = shared.allocate_array(cutlass.Int64, blocking.stages)
        empty = shared.allocate_array(cutlass.Int64, blocking.stages)
        buffers = shared.allocate(blocking.buffer_bytes, byte_alignment=1024)
        w_buffers = self.stages(buffers, w_layout)
        x_buffers = self.stages(buffers + blocking.weight_bytes, x_layout)
        sums = cute.make_tensor(
            cute.recast_ptr(buffers, dtype=cutlass.Float32),
            cute.make_layout((blocking.rows, blocking.tokens), stride=(1, blocking.pitch)),
        )
        if warp == blocking.warps:
            cpasync.prefetch_descriptor(w_copy)
            cpasync.prefetch_descriptor(x_copy)
        if warp == 0:
            with cute.arch.elect_one():
                for stage in cutlass.range_constexpr(blocking.stages):
                    cute.arch.mbarrier_init(full + stage, 1)
                    cute.arch.mbarrier_init(empty + stage, blocking.warps * blocking.sharing)
            cute.arch.mbarrier_init_fence()
        # Before the first load: blocks that share tokens write into each other's memory and barriers.
        self.sync()

        if warp == blocking.warps:
            self.load(
                w_copy, self.tile(w_tiles, (blocking.rows, blocking.depth), row_tile), w_buffers,
                x_copy, self.tile(x_tiles, (blocking.tokens, blocking.depth), token_tile), x_buffers,
                full, empty, steps, rank, neighbour, token_tiles,
            )  # fmt: skip
        else:
            self.multiply(mma, w_buffers, x_buffers, full, empty, steps, rank, sums)
        self.sync()
        if warp < blocking.warps:
            self.store(sums, out, rank, neighbour, row_tile, token_tile)
        # A block's shared memory must outlive what others read of it, and what they have yet to signal to it.
        if cutlass.const_expr(blocking.cluster > 1):
            self.sync()

    @cute.jit
    def load(
        self,
        w_copy: cute.CopyAtom,
        w_tile: cute.Tensor,
        w_buffers: cute.Tensor,
        x_copy: cute.CopyAtom,
        x_tile: cute.Tensor,
        x_buffers: cute.Tensor,
        full: cute.Pointer,
        empty: cute.Pointer,
        steps: cutlass.Int32,
        rank: cutlass.Int32,
        neighbour: cutlass.Int32,
        token_tiles: cutlass.Int32,
    ) -> None:
        """Fill the stages. Neighbours each load a part of the tokens, for all of them.

        The blocks of a cluster take every ``split``-th step, so that together they read long pieces of each row.
        """
        blocking = self.blocking
        w_to, w_from = cpasync.tma_partition(
            w_copy, 0, cute.make_layout(1), cute.group_modes(w_buffers, 0, 2), cute.group_modes(w_tile, 0, 2)
        )
        x_to, x_from = cpasync.tma_partition(
            x_copy,
            neighbour,
            cute.make_layout(blocking.sharing),
            cute.group_modes(x_buffers, 0, 2),
            cute.group_modes(x_tile, 0, 2),
        )
        receivers = cutlass.Int16(blocking.receivers) << cutlass.Int16(rank)
        weights_policy = cutlass.Int64(_ONCE)
        if token_tiles > 1:
            weights_policy = cutlass.Int64(_USUAL)
        stage, parity = cutlass.Int32(0), cutlass.Int32(1)  # of a phase that counts as over: all stages are empty
        cute.arch.griddepcontrol_wait()  # what was launched before may still be writing a or b
        for step in cutlass.range(steps, unroll=1):
            k = rank + step * blocking.split
            cute.arch.mbarrier_wait(empty + stage, parity)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, blocking.stage_bytes)
            cute.copy(w_copy, w_from[None, k], w_to[None, stage], tma_bar_ptr=full + stage, cache_policy=weights_policy)
            if cutlass.const_expr(blocking.sharing > 1):
                cute.copy(
                    x_copy,
                    x_from[None, k],
                    x_to[None, stage],
                    tma_bar_ptr=full + stage,
                    mcast_mask=receivers,
                    cache_policy=cutlass.Int64(_OFTEN),
                )
            else:
                cute.copy(
                    x_copy,
                    x_from[None, k],
                    x_to[None, stage],
                    tma_bar_ptr=full + stage,
                    cache_policy=cutlass.Int64(_OFTEN),
                )
            stage += 1
            if stage == blocking.stages:
                stage = cutlass.Int32(0)
                parity ^= 1
        cute.arch.griddepcontrol_launch_dependents()

    @cute.jit
    def multiply(
        self,
        mma: cute.TiledMma,
        w_buffers: cute.Tensor,
        x_buffers: cute.Tensor,
        full: cute.Pointer,
        empty: cute.Pointer,
        steps: cutlass.Int32,
        rank: cutlass.Int32,
        sums: cute.Tensor,
    ) -> None:
        """Multiply each stage as it comes, hand the one before back, and leave the sums in shared memory."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        group = mma.get_slice(cute.arch.make_warp_uniform(thread // GROUP) * GROUP)
        w = mma.make_fragment_A(group.partition_A(w_buffers))
        x = mma.make_fragment_B(group.partition_B(x_buffers))
        mine = mma.get_slice(thread).partition_C(sums)
        total = cute.make_rmem_tensor(mine.shape, cutlass.Float32)
        total.fill(0)
        mma.set(warpgroup.Field.ACCUMULATE, True)
        stage, parity, before = cutlass.Int32(0), cutlass.Int32(0), cutlass.Int32(0)
        for step in cutlass.range(steps, unroll=1):
            cute.arch.mbarrier_wait(full + stage, parity)
            warpgroup.fence()
            for k in cutlass.range_constexpr(cute.size(w, mode=[2])):
                cute.gemm(mma, total, w[None, None, k, stage], x[None, None, k, stage], total)
            warpgroup.commit_group()
            warpgroup.wait_group(1)
            if step > 0:
                self.release(empty + before, rank)
            before = stage
            stage += 1
            if stage == blocking.stages:
                stage = cutlass.Int32(0)
                parity ^= 1
        warpgroup.wait_group(0)
        # The sums take the place of the stages: no warp may still be multiplying.
        cute.arch.barrier(barrier_id=_CONSUMERS, number_of_threads=blocking.warps * WARP)
        cute.autovec_copy(total, mine)

    @cute.jit
    def release(self, empty: cute.Pointer, rank: cutlass.Int32) -> None:
        """One arrival of this warp, at each block that loads into this one's stage."""
        lane = cute.arch.lane_idx()
        if cutlass.const_expr(self.blocking.sharing > 1):
            if lane < self.blocking.sharing:
                cute.arch.mbarrier_arrive(empty, rank + lane * self.blocking.split)
        else:
            if lane == 0:
                cute.arch.mbarrier_arrive(empty)

    @cute.jit
    def store(
        self,
        sums: cute.Tensor,
        out: cute.Tensor,
        rank: cutlass.Int32,
        neighbour: cutlass.Int32,
        row_tile: cutlass.Int32,
        token_tile: cutlass.Int32,
    ) -> None:
        """Add up this block's share of the tile over the cluster, and write it, 16 bytes at a time."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        vector = 128 // out.element_type.width
        across = blocking.rows // vector
        threads = blocking.warps * WARP
        first_token, first_row = token_tile * blocking.tokens, row_tile * blocking.rows
        vectors = cutlass.min(blocking.tokens, cutlass.Int32(out.shape[0]) - first_token) * across
        for i in cutlass.range(rank * threads + thread, vectors, threads * blocking.split, unroll=1):
            token, row = i // across, i % across * vector
            if first_row + row < out.shape[1]:
                total = cute.make_rmem_tensor(vector, cutlass.Float32)
                part = cute.make_rmem_tensor((vector, blocking.split), cutlass.Float32)
                place = sums.iterator + (token * blocking.pitch + row)
                for peer in cutlass.range_constexpr(blocking.split):
                    cute.autovec_copy(self.partial(place, neighbour * blocking.split + peer, vector), part[None, peer])
                total.store(part[None, 0].load())
                for peer in cutlass.range_constexpr(1, blocking.split):
                    total.store(total.load() + part[None, peer].load())
                result = cute.make_rmem_tensor(vector, out.element_type)
                result.store(total.load().to(out.element_type))
                offset = cutlass.Int64(first_token + token) * out.stride[0] + first_row + row
                cute.autovec_copy(result, cute.make_tensor((out.iterator + offset).align(16), cute.make_layout(vector)))

    @cute.jit
    def partial(self, place: cute.Pointer, block: cutlass.Int32, vector: cutlass.Constexpr) -> cute.Tensor:
        """Sums in the shared memory of a block of the cluster."""
        aligned = place.align(16)
        if cutlass.const_expr(self.blocking.split > 1):
            aligned = cute.arch.map_dsmem_ptr(aligned, block)
        return cute.make_tensor(aligned, cute.make_layout(vector))

    @cute.jit
    def sync(self) -> None:
        """Wait for the whole cluster, or the block where it is alone. What was written before is seen after."""
        if cutlass.const_expr(self.blocking.cluster > 1):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()

    def stages(self, pointer: Any, layout: Any) -> Any:
        """The stages of one operand, in the order that wgmma reads."""
        return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, dtype=self.dtype), layout.outer)

    def tile(self, tensor: Any, shape: Any, index: Any) -> Any:
        """The rows of one tile, in steps along k."""
        return cute.local_tile(tensor, shape, (index, None))


def compile_gemm(blocking: Blocking, a: Any, b: Any, out: Any) -> Any:
    """Compile for tensors that stand for the caller's."""
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(GemmSm90a(blocking, a.element_type).gemm, a, b, out, stream, options="--enable-tvm-ffi")
