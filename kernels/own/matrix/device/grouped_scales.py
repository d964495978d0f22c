"""The scales of float8 values: of each token for every 128 of k, and of the weights for blocks of 128 by 128."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.matrix.blocking import WARP
from precast.kernels.own.matrix.grouping import BLOCK, Grouping


class GroupedScales:
    """How scales come into the stages, beside the values that they belong to, and from there into the sums.

    The warp that loads multiplies the scale of each token with that of the weights, one step ahead: those that sum up
    have no time to.
    """

    def __init__(self, grouping: Grouping) -> None:
        self.grouping = grouping

    def stages(self, shared: Any) -> Any:
        """Shared memory for the factors of a tile: of each token, for each part of the weights, in each stage."""
        grouping = self.grouping
        room = shared.allocate(grouping.stages * grouping.scale_bytes, byte_alignment=128)
        layout = cute.make_layout((grouping.tokens, grouping.loads, grouping.stages))
        return cute.make_tensor(cute.recast_ptr(room, dtype=cutlass.Float32), layout)

    def held(self) -> tuple[Any, Any]:
        """Registers of a lane for the scales of its tokens, and for those of the weights."""
        tokens = -(-self.grouping.tokens // WARP)
        return tuple(cute.make_rmem_tensor(size, cutlass.Float32) for size in (tokens, self.grouping.loads))

    @cute.jit
    def fetch(
        self,
        held: Any,
        a_scale: cute.Tensor,
        b_scale: cute.Tensor,
        expert: cutlass.Int32,
        segment: cutlass.Int32,
        token: cutlass.Int32,
        row_tile: cutlass.Int32,
        k: cutlass.Int32,
    ) -> None:
        """Read the scales of a step, or of the last one; of a token past the last row, that of the last, and of a tile
        of weights past the last row, too.

        One by one, since the rows of an expert begin anywhere, and not at a multiple of 16 bytes.
        """
        of_tokens, of_weights = held
        lane = cute.arch.lane_idx()
        step = cutlass.min(k, cutlass.Int32(a_scale.shape[1]) - 1)
        last = cutlass.Int32(a_scale.shape[2]) - 1
        row = cutlass.Int64(segment) * a_scale.stride[0] + cutlass.Int64(step) * a_scale.stride[1]
        for i in cutlass.range_constexpr(cute.size(of_tokens)):
            place = a_scale.iterator + row + cutlass.min(token + i * WARP + lane, last)
            of_tokens[i] = cute.make_tensor(place, cute.make_layout(1))[0]
        last_block = cutlass.Int32(b_scale.shape[1]) - 1
        for part in cutlass.range_constexpr(self.grouping.loads):
            block = row_tile * self.grouping.columns // BLOCK
            if cutlass.const_expr(part > 0):  # what a gate is multiplied with stands behind all gates
                block += (last_block + 1) // 2
            of_weights[part] = b_scale[expert, cutlass.min(block, last_block), step]

    @cute.jit
    def put(self, held: Any, stage: cute.Tensor, full: cute.Pointer) -> None:
        """Write what was read into a stage, and arrive there: every lane does."""
        of_tokens, of_weights = held
        lane = cute.arch.lane_idx()
        for i in cutlass.range_constexpr(cute.size(of_tokens)):
            if i * WARP + lane < self.grouping.tokens:
                for part in cutlass.range_constexpr(self.grouping.loads):
                    stage[i * WARP + lane, part] = of_tokens[i] * of_weights[part]
        cute.arch.mbarrier_arrive(full)

    @cute.jit
    def promote(self, total: cute.Tensor, partial: cute.Tensor, factors: cute.Tensor) -> None:
        """Add the sums of one step, each times the scales of its token and of the weights."""
        column = cute.arch.lane_idx() % 4 * 2
        for j in cutlass.range_constexpr(self.grouping.tokens // 8):
            for c in cutlass.range_constexpr(2):
                for repeat in cutlass.range_constexpr(self.grouping.repeats):
                    factor = factors[8 * j + column + c, repeat]
                    for r in cutlass.range_constexpr(2):
                        place = ((c, r, j), repeat, 0)
                        total[place] = total[place] + partial[place] * factor
