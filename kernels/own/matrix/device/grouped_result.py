"""The end of a tile: the activation of a gate, and the store of the rounded sums."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import warp

from precast.kernels.own.matrix.blocking import GROUP
from precast.kernels.own.matrix.grouping import PITCH, Grouping

VECTOR = 8  # results of 16 bits in 16 bytes
_STAGING = 1  # the named barrier of the first group; 0 is the whole block's


class GroupedResult:
    """The sums of a tile. Each thread has some of them, for weights along the first dimension."""

    def __init__(self, grouping: Grouping) -> None:
        self.grouping = grouping

    @cute.jit
    def gate(self, total: cute.Tensor) -> None:
        """Replace the gate by ``silu(gate) * other``: the second 64 rows of each thread are the others."""
        for j in cutlass.range_constexpr(self.grouping.tokens // 8):
            for i in cutlass.range_constexpr(4):
                index = (i % 2, i // 2, j)
                x = total[index, 0, 0]
                total[index, 0, 0] = (
                    x * total[index, 1, 0] * cute.arch.rcp_approx(1.0 + cute.math.exp(-x, fastmath=True))
                )

    @cute.jit
    def store(
        self,
        total: cute.Tensor,
        staging: cute.Pointer,
        out: cute.Tensor,
        token: cutlass.Int32,
        row: cutlass.Int32,
        count: cutlass.Int32,
    ) -> None:
        """Round a tile, transpose it in shared memory so that rows of ``out`` are contiguous, and write 16 bytes at a
        time. Each group has 64 rows of weights, a part of the shared memory, and a named barrier.
        """
        grouping = self.grouping
        thread, _, _ = cute.arch.thread_idx()
        group, lane = thread // GROUP, thread % GROUP
        group_staged = staging + cute.assume(group * (grouping.staged * PITCH), divby=VECTOR)
        for repeat in cutlass.range_constexpr(grouping.columns // (64 * grouping.groups)):
            first_row = row + repeat * 128 + group * 64
            for part in cutlass.range_constexpr(grouping.tokens // grouping.staged):
                first_token = token + part * grouping.staged
                if first_token < count:
                    self.group_barrier(group)  # all have read the previous part
                    self.stage_part(total, group_staged, repeat, part, lane)
                    self.group_barrier(group)
                    for i in cutlass.range_constexpr(grouping.staged * 64 // (VECTOR * GROUP)):
                        number = i * GROUP + lane
                        t, r = number // 8, number % 8 * VECTOR
                        if first_token + t < count and first_row + r < out.shape[1]:
                            values = cute.make_rmem_tensor(VECTOR, out.element_type)
                            cute.autovec_copy(self.vector(group_staged, t * PITCH + r), values)
                            offset = cutlass.Int64(first_token + t) * out.stride[0] + first_row + r
                            cute.autovec_copy(values, self.vector(out.iterator, offset))

    @cute.jit
    def stage_part(
        self,
        total: cute.Tensor,
        staged: cute.Pointer,
        repeat: cutlass.Constexpr,
        part: cutlass.Constexpr,
        lane: cutlass.Int32,
    ) -> None:
        """Store some tokens' results of a warp's 16 rows, transposed by stmatrix: 16 tokens, as four matrices, at a
        time."""
        grouping = self.grouping
        transposing_copy = cute.make_copy_atom(warp.StMatrix8x8x16bOp(transpose=True, num_matrices=4), staged.dtype)
        token, row = grouping.matrix_address(lane)
        for pair in cutlass.range_constexpr(grouping.staged // 16):
            values = cute.make_rmem_tensor(8, staged.dtype)
            for i in cutlass.range_constexpr(8):
                j = (part * grouping.staged + pair * 16) // 8 + i // 4
                values[i] = total[(i % 2, i // 2 % 2, j), repeat, 0].to(staged.dtype)
            cute.copy(transposing_copy, values, self.vector(staged, (pair * 16 + token) * PITCH + row))

    @cute.jit
    def vector(self, pointer: cute.Pointer, offset: Any) -> cute.Tensor:
        """The 16 bytes at an offset that is a multiple of them."""
        return cute.make_tensor(pointer + cute.assume(offset, divby=VECTOR), cute.make_layout(VECTOR))

    @cute.jit
    def group_barrier(self, group: cutlass.Int32) -> None:
        """Wait for the threads of this group."""
        cute.arch.barrier(barrier_id=_STAGING + group, number_of_threads=GROUP)
