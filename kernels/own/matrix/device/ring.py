"""The ring of stages in shared memory: a block fills it by asynchronous copies, and takes step after step from it."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.matrix.device.ptx import copy_async
from precast.kernels.own.matrix.staging import Side, Staging


class Ring:
    """Stages that are filled ``stages - 1`` steps ahead of the one that is multiplied.

    Elements outside of a matrix are filled with zeros, which add nothing to a sum: only the store of the result needs
    to check bounds.
    """

    def __init__(self, staging: Staging) -> None:
        self.staging = staging

    def allocate(self, shared: Any, dtype: Any, least: int = 0) -> tuple[Any, Any]:
        """Memory for the stages of both sides, contiguous, and of at least ``least`` bytes."""
        staging = self.staging
        memory = cute.recast_ptr(shared.allocate(max(staging.bytes, least), byte_alignment=128), dtype=dtype)
        return memory, memory + staging.stages * staging.first.elements

    def stage(self, pointer: Any, side: Side, number: Any) -> Any:
        """One stage's part of one side."""
        return pointer + number * side.elements

    @cute.jit
    def begin(
        self, first: cute.Tensor, second: cute.Tensor, row: cutlass.Int32, column: cutlass.Int32,
        first_stages: cute.Pointer, second_stages: cute.Pointer,
    ) -> None:  # fmt: skip
        """Start to fill all stages but one, for the tile whose first row and column these are."""
        for step in cutlass.range_constexpr(self.staging.stages - 1):
            self.fill(first, second, row, column, first_stages, second_stages, cutlass.Int32(step), step)

    @cute.jit
    def fill(
        self, first: cute.Tensor, second: cute.Tensor, row: cutlass.Int32, column: cutlass.Int32,
        first_stages: cute.Pointer, second_stages: cute.Pointer, step: cutlass.Int32, stage: cutlass.Int32,
    ) -> None:  # fmt: skip
        """Start to fill a stage with a step. After the last step nothing is read, but a group of copies is still
        committed, since ``next`` counts groups."""
        staging = self.staging
        self.copy(staging.first, first, row, step, self.stage(first_stages, staging.first, stage))
        self.copy(staging.second, second, column, step, self.stage(second_stages, staging.second, stage))
        cute.arch.cp_async_commit_group()

    @cute.jit
    def next(self) -> None:
        """Wait until all threads' copies of the oldest step are complete. The previous step's stage may then be
        overwritten, since all threads have read it."""
        cute.arch.cp_async_wait_group(self.staging.stages - 2)
        cute.arch.sync_threads()

    @cute.jit
    def end(self) -> None:
        """Wait until all copies are complete and all threads have read the last stage."""
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()

    @cute.jit
    def copy(
        self, side: cutlass.Constexpr, matrix: cute.Tensor, start: cutlass.Int32, step: cutlass.Int32, to: cute.Pointer
    ) -> None:
        """Start this thread's copies of one side, a matrix of (along, k), for a step."""
        thread, _, _ = cute.arch.thread_idx()
        line, position = side.first_copy(thread)
        if cutlass.const_expr(side.contiguous_k):
            lines, width, pitch = matrix.shape[0], matrix.shape[1], matrix.stride[0]
            first, left = start, step * side.depth
        else:
            lines, width, pitch = matrix.shape[1], matrix.shape[0], matrix.stride[1]
            first, left = step * side.depth, start
        interior = first + side.lines <= lines and left + side.width <= width
        source = matrix.iterator + (cutlass.Int64(first + line) * pitch + (left + position))
        if interior:
            for i in cutlass.range_constexpr(side.copies(self.staging.threads)):
                down, right = side.later_copy(i, self.staging.threads)
                target = to + side.offset(line + down, position + right)
                copy_async(target, source + (down * pitch + right), side.copied)
        else:
            # Rare, and therefore a loop: if unrolled and predicated, its instructions would be issued in every step.
            for i in cutlass.range(side.copies(self.staging.threads), unroll=1):
                down, right = side.later_copy(i, self.staging.threads)
                target = to + side.offset(line + down, position + right)
                count = cutlass.max(cutlass.min(width - (left + position + right), side.vector), 0)
                if first + line + down >= lines:
                    count = cutlass.Int32(0)
                copy_async(target, source + (down * pitch + right), side.copied, count * (side.bits // 8))
