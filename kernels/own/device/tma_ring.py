"""The ring of stages that TMA fills: its barriers, its layout, and how the blocks of a cluster fill it together.

One warp of a block loads. The barrier ``full`` completes a phase when a stage has arrived, ``empty`` when all have read
it. Producer and consumers walk the ring with a stage's number and the parity of the phase that they wait for, which
flips with each round (``TmaRing.after``): a barrier can tell the current phase from the previous one only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync

# Cache policies of TMA loads, in the hardware's encoding: evict first, evict normally, evict last.
ONCE, USUAL, OFTEN = 0x12F0000000000000, 0x1000000000000000, 0x14F0000000000000


@dataclass(frozen=True)
class TmaRing:
    """The barriers of ``stages`` stages: ``full`` and ``empty`` have one for each.

    ``sharing`` blocks load a side together: all must have read a stage before it is loaded again. Their ranks in the
    cluster are ``rank_stride`` apart.
    """

    full: Any
    empty: Any
    stages: cutlass.Constexpr
    sharing: cutlass.Constexpr
    rank_stride: cutlass.Constexpr

    @classmethod
    def allocate(cls, shared: Any, stages: int, *, sharing: int = 1, rank_stride: int = 1) -> TmaRing:
        """Allocate the barriers in shared memory; ``initialize`` must follow."""
        full, empty = (shared.allocate_array(cutlass.Int64, stages) for _ in range(2))
        return cls(full, empty, stages, sharing, rank_stride)

    def initialize(self, loaders: int, readers: int) -> None:
        """Initialize the barriers, in one thread: ``loaders`` arrivals fill a stage, ``readers`` warps of each block
        read it. A fence and a barrier of the block, or of the cluster, must follow before they are used."""
        for stage in range(self.stages):
            cute.arch.mbarrier_init(self.full + stage, loaders)
            cute.arch.mbarrier_init(self.empty + stage, readers * self.sharing)

    def wait_full(self, stage: Any, parity: Any) -> None:
        """Wait until a stage has arrived. The parity of the first round is 0."""
        cute.arch.mbarrier_wait(self.full + stage, parity)

    def wait_empty(self, stage: Any, parity: Any) -> None:
        """Wait until a stage may be filled. The parity of the first round is 1: a new barrier counts the phase before
        its first as complete, so that the first round does not wait."""
        cute.arch.mbarrier_wait(self.empty + stage, parity)

    def expect(self, stage: Any, loaded: Any) -> None:
        """Arrive for the loading warp, and announce the bytes that TMA will write: the phase completes with the
        last."""
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(self.full + stage, loaded)

    @cute.jit
    def after(self, stage: cutlass.Int32, parity: cutlass.Int32) -> Any:
        """The next stage, and its parity, which flips with each round."""
        stage += 1
        if stage == self.stages:
            stage = cutlass.Int32(0)
            parity ^= 1
        return stage, parity

    @cute.jit
    def later(self, stage: cutlass.Int32, parity: cutlass.Int32, steps: cutlass.Int32) -> Any:
        """The stage some steps later, and its parity."""
        reached = stage + steps
        return reached % self.stages, parity ^ (reached // self.stages & 1)

    @cute.jit
    def drain(self, stage: cutlass.Int32, parity: cutlass.Int32) -> None:
        """After the last load: wait until every stage was read by all blocks that it was loaded for. Other blocks still
        arrive at this block's barriers, which vanish when it exits. ``stage`` is the one that would be filled next."""
        for _ in cutlass.range_constexpr(self.stages):
            self.wait_empty(stage, parity)
            stage, parity = self.after(stage, parity)

    @cute.jit
    def release(self, stage: cutlass.Int32, first: Any = 0) -> None:
        """This warp has read a stage: arrive at the barrier of each block that loads into it. ``first`` is the lowest
        rank of these."""
        empty, lane = self.empty + stage, cute.arch.lane_idx()
        if cutlass.const_expr(self.sharing > 1):
            if lane < self.sharing:
                cute.arch.mbarrier_arrive(empty, first + lane * self.rank_stride)
        else:
            if lane == 0:
                cute.arch.mbarrier_arrive(empty)


def tma_copy(tensor: Any, layout: Any, tile: tuple[int, int], parts: int = 1) -> Any:
    """The TMA descriptor for tiles of a tensor and stages of a layout, and the tensor of its coordinates: for whole
    tiles, or for ``parts`` of them, each multicast to all blocks that share the tile."""
    operation = cpasync.CopyBulkTensorTileG2SMulticastOp if parts > 1 else cpasync.CopyBulkTensorTileG2SOp
    stage_layout = cute.select(layout, mode=[0, 1])
    return cpasync.make_tiled_tma_atom(operation(), tensor, stage_layout, tile, num_multicast=parts)


def tma_parts(copy: Any, stages: Any, tile: Any, part: Any = 0, parts: int = 1) -> Any:
    """The stages in shared memory and the steps of a tile in global memory, as one block copies them: whole, or one of
    the ``parts``."""
    stages, tile = cute.group_modes(stages, 0, 2), cute.group_modes(tile, 0, 2)
    return cpasync.tma_partition(copy, part if parts > 1 else 0, cute.make_layout(parts), stages, tile)


def swizzled(pointer: Any, layout: Any, dtype: Any) -> Any:
    """Shared memory in the swizzled layout that wgmma reads."""
    return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, dtype=dtype), layout.outer)


def cluster_barrier(cluster: int, *, relaxed: bool = False) -> None:
    """Wait for all threads of the cluster, or of the block if the cluster is one block. What was written before is
    visible after. ``relaxed`` takes less time, and makes only visible what was fenced."""
    if cluster > 1:
        cute.arch.cluster_arrive_relaxed() if relaxed else cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    else:
        cute.arch.sync_threads()
