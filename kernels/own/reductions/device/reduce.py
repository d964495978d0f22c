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
    """``out[row] = function(x[row])``. Sums are in float32. As in torch, what is no number is larger than any."""

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
            # Lanes without a row of their own read the last one, and write nothing.
            source = self.offset(x, cutlass.min(row, total - 1))
            held = self.registers(x.element_type)
            if cutlass.const_expr(self.held):
                self.fetch(x, source, 0, held, self.absent)
            self.meet()
            if cutlass.const_expr(self.function in ("sum", "mean")):
                result = self.sum(x, source, held)
            else:
                result = self.largest(x, source, held)
            if row < total and self.split.index(thread, 0) + self.part() == 0:
                out[row] = result.to(out.element_type)

    @cute.jit
    def sum(self, x: cute.Tensor, base: cutlass.Int64, held: cute.Tensor) -> cutlass.Float32:
        """The sum of a row, or its mean."""

        def add(total: Any, group: Any) -> Any:
            return held.load().to(cutlass.Float32).reduce(cute.ReductionOp.ADD, total, 0)

        result = self.shared(self.fold(x, base, held, add, cutlass.Float32(0)), operator.add)
        return result * (1.0 / self.columns) if cutlass.const_expr(self.function == "mean") else result

    @cute.jit
    def largest(self, x: cute.Tensor, base: cutlass.Int64, held: cute.Tensor) -> Any:
        """The largest value of a row, or the first place that has it.

        Only what a group of values has at most is compared, and the first group that has most of all remembered. Its
        places are looked through by those warps alone that have the largest value.
        """
        nothing = (cutlass.Float32(-math.inf), cutlass.Int32(0))
        mine, group = self.fold(x, base, held, lambda state, group: further(state, group, held), nothing, self.absent)
        most = self.shared(mine, larger)
        if cutlass.const_expr(self.function == "max"):
            return most
        position, state = cutlass.Int32(_MOST), same(mine, most)
        if cute.arch.vote_any_sync(state):
            if cutlass.const_expr(not self.held):
                self.fetch(x, base, group, held, self.absent)
            first = self.first_position(held, 0 if cutlass.const_expr(self.held) else group, most)
            # A shuffle is what keeps the compiler from doing all this in every warp.
            position = self.in_warp(first if state else cutlass.Int32(_MOST), cutlass.min)
        return self.across(position, cutlass.min)

    @cute.jit
    def first_position(self, held: cute.Tensor, group: Any, most: cutlass.Float32) -> cutlass.Int32:
        """The first place of a group of this lane's values that has the largest."""
        position = cutlass.Int32(_MOST)
        for i in cutlass.range_constexpr(self.depth - 1, -1, -1):
            start = (self.index(group, i) + self.part() * self.split.vectors) * self.split.vector
            for e in cutlass.range_constexpr(self.split.vector - 1, -1, -1):
                position = cutlass.Int32(start + e) if same(held[e, i].to(cutlass.Float32), most) else position
        return position


@cute.jit
def larger(first: cutlass.Float32, second: cutlass.Float32) -> cutlass.Float32:
    """The larger of two numbers; NaN where one of them is NaN."""
    return cute.arch.fmax(first, second, nan=True)


@cute.jit
def same(first: cutlass.Float32, second: cutlass.Float32) -> Any:
    """Whether two are equal, or both no numbers."""
    return first == second or (first != first and second != second)


@cute.jit
def further(state: Any, group: Any, held: cute.Tensor) -> Any:
    """The largest value so far, and the first group that has it, with one more group of values."""
    most, first = state
    mine = held.load().to(cutlass.Float32).reduce(cute.ReductionOp.MAX, most, 0)
    # Not equal: what was found is a number, or the same as before.
    return mine, first if same(mine, most) else cutlass.Int32(group)


def compile_reduce(dtype: Any, width: int, function: str, cluster: int, threads: int) -> Any:
    """Compile for one dtype, row length and function: rows and their stride are free, each row aligned to 16 bytes."""
    operation = Reduce(Split.of(width // cluster, dtype.width, threads), cluster, function)
    rows = cute.sym_int64()
    result = cutlass.Int64 if function == "argmax" else dtype
    out = make_fake_tensor(result, (rows,), (1,), assumed_align=result.width // 8)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(operation.reduce, matrix(dtype, rows, width), out, stream, options="--enable-tvm-ffi")
