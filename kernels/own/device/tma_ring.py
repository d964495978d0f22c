"""The ring of stages that TMA fills: its barriers, its places, and how the blocks of a cluster fill it together.

One warp of a block loads, ``full`` says when a stage is there, and ``empty`` when it was read. Both sides walk the ring
with a stage's number and a parity, which is that of the barriers' phase: see ``TmaRing.after``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync

# How long the L2 cache keeps what TMA loads, in its own encoding: evicted first, as usual, last.
ONCE, USUAL, OFTEN = 0x12F0000000000000, 0x1000000000000000, 0x14F0000000000000


@dataclass(frozen=True)
class TmaRing:
    """The barriers of ``stages`` stages: ``full`` and ``empty`` have one for each.

    Blocks that load a side together must all have read a stage before it is loaded again: ``sharing`` blocks, which
    stand ``apart`` from each other in the cluster.
    """

    full: Any
    empty: Any
    stages: cutlass.Constexpr
    sharing: cutlass.Constexpr
    apart: cutlass.Constexpr

    @classmethod
    def allocate(cls, shared: Any, stages: int, *, sharing: int = 1, apart: int = 1) -> TmaRing:
        """Barriers in shared memory, to be initialized."""
        full, empty = (shared.allocate_array(cutlass.Int64, stages) for _ in range(2))
        return cls(full, empty, stages, sharing, apart)

    def initialize(self, loaders: int, readers: int) -> None:
        """What one thread does before all others: say how many arrivals fill a stage, and how many warps of a block
        read it."""
        for stage in range(self.stages):
            cute.arch.mbarrier_init(self.full + stage, loaders)
            cute.arch.mbarrier_init(self.empty + stage, readers * self.sharing)

    def wait_full(self, stage: Any, parity: Any) -> None:
        """Wait until a stage is there. The parity of the first round is 0."""
        cute.arch.mbarrier_wait(self.full + stage, parity)

    def wait_empty(self, stage: Any, parity: Any) -> None:
        """Wait until a stage may be filled. The parity of the first round is 1: that of a phase that counts as over."""
        cute.arch.mbarrier_wait(self.empty + stage, parity)

    def expect(self, stage: Any, loaded: Any) -> None:
        """Arrive for the warp that loads, and say how many bytes TMA will write into a stage."""
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(self.full + stage, loaded)

    @cute.jit
    def after(self, stage: cutlass.Int32, parity: cutlass.Int32) -> Any:
        """The next stage, and its parity, which changes with each round."""
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
        """After the last load: wait until every stage was read, by all blocks that it was loaded for. A block's
        barriers must outlive what others have yet to signal to them. ``stage`` would be filled next."""
        for _ in cutlass.range_constexpr(self.stages):
            self.wait_empty(stage, parity)
            stage, parity = self.after(stage, parity)

    @cute.jit
    def release(self, stage: cutlass.Int32, first: Any = 0) -> None:
        """One arrival of this warp, which has read a stage, at each block that loads into it; ``first`` is the first
        of these in the cluster."""
        empty, lane = self.empty + stage, cute.arch.lane_idx()
        if cutlass.const_expr(self.sharing > 1):
            if lane < self.sharing:
                cute.arch.mbarrier_arrive(empty, first + lane * self.apart)
        else:
            if lane == 0:
                cute.arch.mbarrier_arrive(empty)


def tma_copy(tensor: Any, layout: Any, tile: tuple[int, int], parts: int = 1) -> Any:
    """How TMA copies tiles of a tensor into stages of a layout, and the tensor for it: whole ones, or ``parts`` of
    them, each for all blocks that share them."""
    operation = cpasync.CopyBulkTensorTileG2SMulticastOp if parts > 1 else cpasync.CopyBulkTensorTileG2SOp
    stage_layout = cute.select(layout, mode=[0, 1])
    return cpasync.make_tiled_tma_atom(operation(), tensor, stage_layout, tile, num_multicast=parts)


def tma_parts(copy: Any, stages: Any, tile: Any, part: Any = 0, parts: int = 1) -> Any:
    """The places in the stages, and the steps of a tile, that one block copies: all, or one of the ``parts``."""
    stages, tile = cute.group_modes(stages, 0, 2), cute.group_modes(tile, 0, 2)
    return cpasync.tma_partition(copy, part if parts > 1 else 0, cute.make_layout(parts), stages, tile)


def swizzled(pointer: Any, layout: Any, dtype: Any) -> Any:
    """Shared memory in the order that wgmma reads."""
    return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, dtype=dtype), layout.outer)


def meet(cluster: int, *, relaxed: bool = False) -> None:
    """Wait for the whole cluster, or for the block where it is alone. What was written before is seen after; where it
    is ``relaxed``, which takes less time, a cluster sees no more than what was fenced."""
    if cluster > 1:
        cute.arch.cluster_arrive_relaxed() if relaxed else cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    else:
        cute.arch.sync_threads()
