"""The warp of a block that loads the tiles of a product, for itself and for others of its cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync

from precast.kernels.own.device.tma_ring import ONCE, USUAL, tma_parts
from precast.kernels.own.matrix.blocking import Blocking
from precast.kernels.own.matrix.multicast import Multicast

_GPCS = 8  # of a Hopper GPU, each with its own way to the L2 cache


@dataclass(frozen=True)
class Side:
    """How a block loads one side of its tiles: a multicast mask of its ``receivers``, and its ``number`` among the
    blocks that load that side together."""

    copy: Any
    tiles: Any
    stages: Any
    length: cutlass.Constexpr
    multicast: cutlass.Constexpr
    policy: Any
    receivers: Any
    number: Any

    def partition(self, tile: Any, depth: int) -> Any:
        """The part of the stages in shared memory and of a tile's steps in global memory that this block copies."""
        steps = cute.local_tile(self.tiles, (self.length, depth), (tile, None))
        return tma_parts(self.copy, self.stages, steps, self.number, self.multicast.parts)


class GemmLoading:
    """Fills the stages, tile after tile. Blocks that need the same side load a part of it each, or take turns. With
    ``weights``, the caller promises that ``b`` was written long before: the weights of the first stages are then loaded
    while the previous kernel still runs."""

    def __init__(self, blocking: Blocking, *, weights: bool) -> None:
        self.blocking, self.weights = blocking, weights

    def copy(self, tensor: Any, layout: Any, length: int, multicast: Multicast) -> Any:
        """How TMA copies a side of a tile, and the tensor for it."""
        several = multicast.shared
        operation = cpasync.CopyBulkTensorTileG2SMulticastOp() if several else cpasync.CopyBulkTensorTileG2SOp()
        stage, tile = cute.select(layout, mode=[0, 1]), (length, self.blocking.depth)
        return cpasync.make_tiled_tma_atom(operation, tensor, stage, tile, num_multicast=multicast.parts)

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
        k_slice: cutlass.Int32,
        cta_rank: cutlass.Int32,
        out: cute.Tensor,
    ) -> None:
        """Load all tiles of a block. Blocks with slices of one k take every ``split``-th step, so that together they
        read long contiguous pieces of each row."""
        blocking = self.blocking
        start, stride, end, token_clusters = tiles_of(blocking, out)
        weights, tokens = cutlass.Int64(USUAL), cutlass.Int64(USUAL)
        if token_clusters == 1 or end <= stride:  # all blocks that need these weights load them at about the same time
            weights = cutlass.Int64(ONCE)
        weight_receivers, token_receivers = (cutlass.Int16(mask) for mask in blocking.receivers(k_slice, cta_rank))
        weight_side = weights, weight_receivers, cta_rank % blocking.along
        token_side = tokens, token_receivers, cta_rank // blocking.along
        first_side, second_side = (weight_side, token_side) if blocking.swap else (token_side, weight_side)
        first = Side(first_copy, first_tiles, first_stages, blocking.first, blocking.first_multicast, *first_side)
        second = Side(
            second_copy, second_tiles, second_stages, blocking.second, blocking.second_multicast, *second_side
        )
        b_side, a_side = (first, second) if blocking.swap else (second, first)
        depth = blocking.depth

        stage, parity = (
            cutlass.Int32(0),
            cutlass.Int32(1),
        )  # all stages are empty: see TmaRing.wait_empty
        ahead = cutlass.Int32(0)
        token_tile, row_tile = blocking.position(start, cta_rank, token_clusters)
        if cutlass.const_expr(self.weights):
            ahead = cutlass.min(steps, blocking.stages)
            smem_tiles, gmem_tiles = b_side.partition(row_tile, depth)
            for step in cutlass.range(ahead, unroll=1):
                ring.expect(step, blocking.stage_bytes)
                self.fill(b_side, smem_tiles, gmem_tiles, ring.full, step, step, k_slice + step * blocking.split)
        cute.arch.griddepcontrol_wait()  # the previous kernel may still be writing a or b, or reading out
        if cutlass.const_expr(self.weights):
            smem_tiles, gmem_tiles = a_side.partition(token_tile, depth)
            for step in cutlass.range(ahead, unroll=1):
                self.fill(a_side, smem_tiles, gmem_tiles, ring.full, step, step, k_slice + step * blocking.split)
            stage = ahead
            if ahead == blocking.stages:
                stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        for number in cutlass.range(start, end, stride, unroll=1):
            token_tile, row_tile = blocking.position(number, cta_rank, token_clusters)
            b_smem_tiles, b_gmem_tiles = b_side.partition(row_tile, depth)
            a_smem_tiles, a_gmem_tiles = a_side.partition(token_tile, depth)
            for step in cutlass.range(ahead, steps, unroll=1):
                k = k_slice + step * blocking.split
                ring.wait_empty(stage, parity)
                ring.expect(stage, blocking.stage_bytes)
                self.fill(b_side, b_smem_tiles, b_gmem_tiles, ring.full, stage, step, k)
                self.fill(a_side, a_smem_tiles, a_gmem_tiles, ring.full, stage, step, k)
                stage, parity = ring.after(stage, parity)
            ahead = cutlass.Int32(0)
        cute.arch.griddepcontrol_launch_dependents()
        if cutlass.const_expr(blocking.persistent and blocking.sharing > 1):
            ring.drain(stage, parity)

    @cute.jit
    def fill(
        self, side: Any, smem_tiles: cute.Tensor, gmem_tiles: cute.Tensor, full: cute.Pointer, stage: cutlass.Int32,
        step: cutlass.Int32, k: cutlass.Int32,
    ) -> None:  # fmt: skip
        """Copy one side of a step into a stage of all blocks that need it, if it is this block's turn."""
        mask = {"mcast_mask": side.receivers} if side.multicast.shared else {}
        options = {"tma_bar_ptr": full + stage, "cache_policy": side.policy, **mask}
        if cutlass.const_expr(side.multicast.turns == 1):  # noqa: SIM114 (known when it is compiled)
            cute.copy(side.copy, gmem_tiles[None, k], smem_tiles[None, stage], **options)
        elif step % side.multicast.turns == side.number:
            cute.copy(side.copy, gmem_tiles[None, k], smem_tiles[None, stage], **options)


@cute.jit
def tiles_of(blocking: Blocking, out: cute.Tensor) -> Any:
    """The number of a cluster's first tile, the distance to its next one, the end, and the clusters along the tokens.

    The GPU assigns clusters to its GPCs round-robin. Where persistent clusters have one tile each, those of a GPC take
    consecutive tiles: the L2 cache sends what several of them load at the same time to a GPC once.
    """
    block, _, _ = cute.arch.block_idx()
    blocks, _, _ = cute.arch.grid_dim()
    m, n = cutlass.Int32(out.shape[0]), cutlass.Int32(out.shape[1])
    start, stride, end = block // blocking.cluster, blocks // blocking.cluster, blocking.clusters(m, n)
    if cutlass.const_expr(blocking.persistent):  # noqa: SIM102 (known when it is compiled)
        if end <= stride:
            gpc = start % _GPCS
            start = gpc * (stride // _GPCS) + cutlass.min(gpc, stride % _GPCS) + start // _GPCS
    return start, stride, end, blocking.token_clusters(m)
