"""The tiles that a block takes from the products of many experts. The numbers of rows are known on the device only."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.device.scans import warp_through
from precast.kernels.own.matrix.blocking import WARP
from precast.kernels.own.matrix.grouping import Grouping, expert_of, table_size

_MOST = 2**31 - 1


class GroupedTiles:
    """The tiles that have rows, in order. Every warp finds the tiles of its block by itself, from a table in shared
    memory, so that no communication is needed.

    The rows of an expert are the first ``counts[e]`` of a segment of its own, or, in the ``packed`` layout, those of
    the one segment from ``counts[e]`` to ``counts[e + 1]``.
    """

    def __init__(self, grouping: Grouping, experts: int, packed: bool) -> None:
        self.grouping, self.experts, self.packed = grouping, experts, packed
        self.table_size = table_size(experts)

    def table(self, shared: Any) -> Any:
        """Memory for the table."""
        return cute.make_tensor(
            shared.allocate_array(cutlass.Int32, self.table_size), cute.make_layout(self.table_size)
        )

    @cute.jit
    def count(self, table: cute.Tensor, counts: cute.Tensor, capacity: cutlass.Int32) -> None:
        """Fill the table, in one warp: the running total of the tiles of tokens. Each lane sums consecutive experts."""
        lane = cute.arch.lane_idx()
        each = self.table_size // WARP
        total = cutlass.Int32(0)
        for i in cutlass.range_constexpr(each):
            expert = lane * each + i
            if expert < self.experts:
                _, _, rows = self.rows_of(counts, expert, capacity)
                total += self.grouping.token_clusters(rows)
            table[expert] = total
        previous_tiles = warp_through(total) - total
        for i in cutlass.range_constexpr(each):
            expert = lane * each + i
            if expert < self.experts:
                table[expert] = table[expert] + previous_tiles
            else:
                table[expert] = cutlass.Int32(_MOST)

    @cute.jit
    def rows_of(self, counts: cute.Tensor, expert: cutlass.Int32, capacity: cutlass.Int32) -> Any:
        """The segment of an expert, its first row there, and its number of rows, limited to the capacity."""
        segment, first, end = expert, cutlass.Int32(0), cutlass.min(counts[expert], capacity)
        if cutlass.const_expr(self.packed):
            segment, first = cutlass.Int32(0), cutlass.max(end, 0)
            end = cutlass.min(counts[expert + 1], capacity)
        return segment, first, cutlass.max(end - first, 0)

    @cute.jit
    def schedule(self, table: cute.Tensor, out: cute.Tensor) -> Any:
        """The first tile of this cluster, the stride between its tiles, clusters along the weights, and all tiles."""
        block, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        row_clusters = self.grouping.row_clusters(cutlass.Int32(out.shape[2]))
        cluster = self.grouping.cluster
        return block // cluster, blocks // cluster, row_clusters, table[self.experts - 1] * row_clusters

    @cute.jit
    def locate(self, table: cute.Tensor, number: cutlass.Int32, row_clusters: cutlass.Int32) -> Any:
        """The expert of a cluster's tile, this block's tile of tokens and of weights, and the expert's token tiles."""
        expert = expert_of(table, self.table_size, number // row_clusters, cutlass.Int32)
        previous_tiles = cutlass.Int32(0)
        if expert > 0:
            previous_tiles = table[expert - 1]
        tiles = table[expert] - previous_tiles
        places = self.grouping.position(number - previous_tiles * row_clusters, tiles, row_clusters, cutlass.min)
        token_tile, row_tile = self.grouping.tile(*places, self.cta_rank())
        return expert, token_tile, row_tile, tiles

    @cute.jit
    def cta_rank(self) -> cutlass.Int32:
        """This block's rank in its cluster."""
        block, _, _ = cute.arch.block_idx()
        return block % self.grouping.cluster
