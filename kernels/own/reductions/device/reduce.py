"""``reduce`` on the device: several lanes share a row, and a block takes as many rows as its threads allow."""

from __future__ import annotations

import math
import operator
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.rows import Rows, matrix
from precast.kernels.own.rows import Split

_MOST = 2**31 - 1


class Reduce(Rows):
    """``out[row] = function(x[row])``. Sums are in float32. As in torch, NaN compares greater than every number."""

    def __init__(self, split: Split, cluster: int, function: str) -> None:
        super().__init__(split, cluster)
        self.function = function
        self.absent = 0.0 if function in ("sum", "mean") else -math.inf

    @cute.jit
    def reduce(self, x: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch."""
        self.kernel(x, out).launch(
            grid=[self.grid(x), 1, 1],
            block=[self.split.threads, 1, 1],
            cluster=self.cluster_shape,
            stream=stream,
            use_pdl=overlaps(),
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor) -> None:
        """The rows of one block. All its threads take the same branch, so barriers inside it are allowed."""
        wait_for_previous_launch()
        thread, _, _ = cute.arch.thread_idx()
        total, first = cute.size(x, mode=[0]), self.first()
        if first < total:
            row = self.split.row(first, thread)
            # Lanes without a row read the last one, and write nothing.
            source = self.offset(x, cutlass.min(row, total - 1))
            vectors = self.registers(x.element_type)
            if cutlass.const_expr(self.in_registers):
                self.fetch(x, source, 0, vectors, self.absent)
            self.cluster_barrier()
            if cutlass.const_expr(self.function in ("sum", "mean")):
                result = self.sum(x, source, vectors)
            else:
                result = self.largest(x, source, vectors)
            if row < total and self.split.index(thread, 0) + self.part() == 0:
                out[row] = result.to(out.element_type)

    @cute.jit
    def sum(self, x: cute.Tensor, base: cutlass.Int64, vectors: cute.Tensor) -> cutlass.Float32:
        """The sum of a row, or its mean."""

        def add(total: Any, group: Any) -> Any:
            return vectors.load().to(cutlass.Float32).reduce(cute.ReductionOp.ADD, total, 0)

        result = self.shared(self.fold(x, base, vectors, add, cutlass.Float32(0)), operator.add)
        return result * (1.0 / self.columns) if cutlass.const_expr(self.function == "mean") else result

    @cute.jit
    def largest(self, x: cute.Tensor, base: cutlass.Int64, vectors: cute.Tensor) -> Any:
        """The largest value of a row, or the index of its first occurrence.

        The pass compares the maxima of groups only, and remembers the first group with the largest. The index is then
        searched in that group, by the warps that have the largest value.
        """
        nothing = (cutlass.Float32(-math.inf), cutlass.Int32(0))
        lane_max, group = self.fold(
            x, base, vectors, lambda state, group: further(state, group, vectors), nothing, self.absent
        )
        row_max = self.shared(lane_max, larger)
        if cutlass.const_expr(self.function == "max"):
            return row_max
        position, state = cutlass.Int32(_MOST), same(lane_max, row_max)
        if cute.arch.vote_any_sync(state):
            if cutlass.const_expr(not self.in_registers):
                self.fetch(x, base, group, vectors, self.absent)
            first = self.first_position(vectors, 0 if cutlass.const_expr(self.in_registers) else group, row_max)
            # The shuffle keeps the compiler from predicating the search instead of branching around it.
            position = self.in_warp(first if state else cutlass.Int32(_MOST), cutlass.min)
        return self.across(position, cutlass.min)

    @cute.jit
    def first_position(self, vectors: cute.Tensor, group: Any, row_max: cutlass.Float32) -> cutlass.Int32:
        """The first index in a group of this lane's values that has the largest value."""
        position = cutlass.Int32(_MOST)
        for i in cutlass.range_constexpr(self.depth - 1, -1, -1):
            start = (self.index(group, i) + self.part() * self.split.vectors) * self.split.vector
            for e in cutlass.range_constexpr(self.split.vector - 1, -1, -1):
                position = cutlass.Int32(start + e) if same(vectors[e, i].to(cutlass.Float32), row_max) else position
        return position


@cute.jit
def larger(first: cutlass.Float32, second: cutlass.Float32) -> cutlass.Float32:
    """The larger of two numbers; NaN where one of them is NaN."""
    return cute.arch.fmax(first, second, nan=True)


@cute.jit
def same(first: cutlass.Float32, second: cutlass.Float32) -> Any:
    """Whether two numbers are equal, or both NaN."""
    return first == second or (first != first and second != second)


@cute.jit
def further(state: Any, group: Any, vectors: cute.Tensor) -> Any:
    """The largest value so far, and the first group that has it, with one more group of values."""
    row_max, first = state
    lane_max = vectors.load().to(cutlass.Float32).reduce(cute.ReductionOp.MAX, row_max, 0)
    # ``same`` and not ``==``: after a NaN, the first group that has one stays.
    return lane_max, first if same(lane_max, row_max) else cutlass.Int32(group)


def compile_reduce(dtype: Any, width: int, function: str, cluster: int, threads: int) -> Any:
    """Compile for one dtype, row length and function: rows and their stride are free, each row aligned to 16 bytes."""
    operation = Reduce(Split.of(width // cluster, dtype.width, threads), cluster, function)
    rows = cute.sym_int64()
    result = cutlass.Int64 if function == "argmax" else dtype
    out = make_fake_tensor(result, (rows,), (1,), assumed_align=result.width // 8)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(operation.reduce, matrix(dtype, rows, width), out, stream, options="--enable-tvm-ffi")
