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
    """How a block loads one side of its tiles: for which ``receivers``, and which ``number`` it has among the blocks
    that load that side together."""

    copy: Any
    tiles: Any
    stages: Any
    length: cutlass.Constexpr
    multicast: cutlass.Constexpr
    policy: Any
    receivers: Any
    number: Any

    def of_tile(self, tile: Any, depth: int) -> Any:
        """The places in the stages, and the steps of a tile, that the block copies."""
        steps = cute.local_tile(self.tiles, (self.length, depth), (tile, None))
        return tma_parts(self.copy, self.stages, steps, self.number, self.multicast.parts)


class GemmLoading:
    """Fills the stages, tile after tile. What several blocks need, each loads a part of, or in its turn. Where
    ``weights`` were there before anything else, those of the first stages are loaded while the kernel before still
    runs."""

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
        share: cutlass.Int32,
        neighbour: cutlass.Int32,
        out: cute.Tensor,
    ) -> None:
        """Load all tiles of a block. Those that share k take every ``split``-th step, so that together they read long
        pieces of each row."""
        blocking = self.blocking
        start, stride, end, token_clusters = tiles_of(blocking, out)
        weights, tokens = cutlass.Int64(USUAL), cutlass.Int64(USUAL)
        if token_clusters == 1 or end <= stride:  # who needs the same weights loads them at about the same time
            weights = cutlass.Int64(ONCE)
        weight_receivers, token_receivers = (cutlass.Int16(mask) for mask in blocking.receivers(share, neighbour))
        of_weights = weights, weight_receivers, neighbour % blocking.along
        of_tokens = tokens, token_receivers, neighbour // blocking.along
        of_first, of_second = (of_weights, of_tokens) if blocking.swap else (of_tokens, of_weights)
        first = Side(first_copy, first_tiles, first_stages, blocking.first, blocking.first_multicast, *of_first)
        second = Side(second_copy, second_tiles, second_stages, blocking.second, blocking.second_multicast, *of_second)
        of_b, of_a = (first, second) if blocking.swap else (second, first)
        depth = blocking.depth

        stage, parity = cutlass.Int32(0), cutlass.Int32(1)  # of a phase that counts as over: all stages are empty
        ahead = cutlass.Int32(0)
        token_tile, row_tile = blocking.position(start, neighbour, token_clusters)
        if cutlass.const_expr(self.weights):
            ahead = cutlass.min(steps, blocking.stages)
            to, source = of_b.of_tile(row_tile, depth)
            for step in cutlass.range(ahead, unroll=1):
                ring.expect(step, blocking.stage_bytes)
                self.fill(of_b, to, source, ring.full, step, step, share + step * blocking.split)
        cute.arch.griddepcontrol_wait()  # what was launched before may still be writing a, or b, or reading out
        if cutlass.const_expr(self.weights):
            to, source = of_a.of_tile(token_tile, depth)
            for step in cutlass.range(ahead, unroll=1):
                self.fill(of_a, to, source, ring.full, step, step, share + step * blocking.split)
            stage = ahead
            if ahead == blocking.stages:
                stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        for number in cutlass.range(start, end, stride, unroll=1):
            token_tile, row_tile = blocking.position(number, neighbour, token_clusters)
            b_to, b_from = of_b.of_tile(row_tile, depth)
            a_to, a_from = of_a.of_tile(token_tile, depth)
            for step in cutlass.range(ahead, steps, unroll=1):
                k = share + step * blocking.split
                ring.wait_empty(stage, parity)
                ring.expect(stage, blocking.stage_bytes)
                self.fill(of_b, b_to, b_from, ring.full, stage, step, k)
                self.fill(of_a, a_to, a_from, ring.full, stage, step, k)
                stage, parity = ring.after(stage, parity)
            ahead = cutlass.Int32(0)
        cute.arch.griddepcontrol_launch_dependents()
        if cutlass.const_expr(blocking.stays and blocking.sharing > 1):
            ring.drain(stage, parity)

    @cute.jit
    def fill(
        self, side: Any, to: cute.Tensor, source: cute.Tensor, full: cute.Pointer, stage: cutlass.Int32,
        step: cutlass.Int32, k: cutlass.Int32,
    ) -> None:  # fmt: skip
        """Copy one side of a step into a stage, for the blocks that need it, where it is this block's turn."""
        mask = {"mcast_mask": side.receivers} if side.multicast.shared else {}
        options = {"tma_bar_ptr": full + stage, "cache_policy": side.policy, **mask}
        if cutlass.const_expr(side.multicast.turns == 1):  # noqa: SIM114 (known when it is compiled)
            cute.copy(side.copy, source[None, k], to[None, stage], **options)
        elif step % side.multicast.turns == side.number:
            cute.copy(side.copy, source[None, k], to[None, stage], **options)


@cute.jit
def tiles_of(blocking: Blocking, out: cute.Tensor) -> Any:
    """The number of a cluster's first tile, how many further the next is, where they end, and how many stand along the
    tokens.

    The GPU gives clusters to its GPCs in turn. Where those that stay have one tile each, those of a GPC take tiles that
    stand one after another: what several of them load at a time, the L2 cache sends to a GPC once.
    """
    block, _, _ = cute.arch.block_idx()
    blocks, _, _ = cute.arch.grid_dim()
    m, n = cutlass.Int32(out.shape[0]), cutlass.Int32(out.shape[1])
    start, stride, end = block // blocking.cluster, blocks // blocking.cluster, blocking.clusters(m, n)
    if cutlass.const_expr(blocking.stays):  # noqa: SIM102 (known when it is compiled)
        if end <= stride:
            gpc = start % _GPCS
            start = gpc * (stride // _GPCS) + cutlass.min(gpc, stride % _GPCS) + start // _GPCS
    return start, stride, end, blocking.token_clusters(m)
