"""The scales of float8 values: of each token for every 128 of k, and of the weights for blocks of 128 by 128."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync

from precast.kernels.own.matrix.blocking import WARP
from precast.kernels.own.matrix.grouping import BLOCK, Grouping


class GroupedScales:
    """Loads the scales into the stages, beside the values that they belong to, and applies them to the sums."""

    def __init__(self, grouping: Grouping) -> None:
        self.grouping = grouping

    def stages(self, shared: Any) -> Any:
        """Shared memory for the scales of a tile of tokens, in each stage."""
        grouping = self.grouping
        buffer = shared.allocate(grouping.stages * grouping.scale_bytes, byte_alignment=128)
        layout = cute.make_layout((grouping.tokens, grouping.stages), stride=(1, grouping.scale_bytes // 4))
        return cute.make_tensor(cute.recast_ptr(buffer, dtype=cutlass.Float32), layout)

    @cute.jit
    def load(
        self,
        a_scale: cute.Tensor,
        stage: cute.Tensor,
        segment: cutlass.Int32,
        k: cutlass.Int32,
        token: cutlass.Int32,
    ) -> None:
        """Copy the scales of a tile of tokens, some in each lane. A token past the last row gets the last row's.

        They are copied one by one, since the rows of an expert need not begin at a multiple of 16 bytes.
        """
        lane = cute.arch.lane_idx()
        copy_atom = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
        last_k, last = cutlass.Int32(a_scale.shape[1]) - 1, cutlass.Int32(a_scale.shape[2]) - 1
        row = cutlass.Int64(segment) * a_scale.stride[0] + cutlass.Int64(cutlass.min(k, last_k)) * a_scale.stride[1]
        for first in cutlass.range_constexpr(0, self.grouping.tokens, WARP):
            if first + lane < self.grouping.tokens:
                source = a_scale.iterator + row + cutlass.min(token + first + lane, last)
                to = stage.iterator + first + lane
                cute.copy(
                    copy_atom, cute.make_tensor(source, cute.make_layout(1)), cute.make_tensor(to, cute.make_layout(1))
                )

    @cute.jit
    def of_weights(self, b_scale: cute.Tensor, expert: cutlass.Int32, row_tile: cutlass.Int32) -> Any:
        """The scales of a tile's weights, one for each step, and those of the rows that a gate is multiplied with. A
        tile past the last row gets the last row's."""
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
        """Add the sums of one step, each multiplied by the scales of its token and of the weights."""
        column = cute.arch.lane_idx() % 4 * 2
        for j in cutlass.range_constexpr(self.grouping.tokens // 8):
            for c in cutlass.range_constexpr(2):
                token = scales[8 * j + column + c]
                for repeat in cutlass.range_constexpr(self.grouping.repeats):
                    factor = token * (other if repeat else scale)
                    for r in cutlass.range_constexpr(2):
                        index = ((c, r, j), repeat, 0)
                        total[index] = total[index] + partial[index] * factor
