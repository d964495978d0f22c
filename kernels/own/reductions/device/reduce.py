"""``reduce`` on the device: several lanes share a row, and a block takes as many rows as its threads allow."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

import math
import operator
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.device.rows import Rows, matrix
from precast.kernels.own.rows import Split

_LEAST, _MOST = -(2**31), 2**31 - 1


class Reduce(Rows):
    """``out[row] = function(x[row])``. Sums are in float32; the largest is found among integers in its order."""

    def __init__(self, split: Split, cluster: int, function: str) -> None:
        super().__init__(split, cluster)
        self.function = function
        self.absent = 0.0 if function in ("sum", "mean") else -math.inf

    @cute.jit
    def reduce(self, x: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch."""
        self.kernel(x, out).launch(
            grid=[self.grid(x), 1, 1], block=[self.split.threads, 1, 1], cluster=self.cluster_shape, stream=stream
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor) -> None:
        """The rows of one block. All its threads take the same branch, so barriers inside it are allowed."""
        thread, _, _ = cute.arch.thread_idx()
        total, first = cute.size(x, mode=[0]), self.first()
        if first < total:
            row = self.split.row(first, thread)
            # Lanes without a row of their own read the last one, and write nothing.
            source = self.place(x, cutlass.min(row, total - 1))
            held = self.room(x.element_type)
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

        def add(found: Any, group: Any) -> Any:
            return held.load().to(cutlass.Float32).reduce(cute.ReductionOp.ADD, found, 0)

        found = self.shared(self.fold(x, base, held, add, cutlass.Float32(0)), operator.add)
        return found * (1.0 / self.columns) if cutlass.const_expr(self.function == "mean") else found

    @cute.jit
    def largest(self, x: cute.Tensor, base: cutlass.Int64, held: cute.Tensor) -> Any:
        """The largest value of a row, or the first place that has it."""
        nothing = (cutlass.Int32(_LEAST), cutlass.Int32(_MOST))
        key, place = self.fold(
            x, base, held, lambda found, group: self.further(found, group, held), nothing, self.absent
        )
        most = self.shared(key, cutlass.max)
        if cutlass.const_expr(self.function == "max"):
            return ordered(most).bitcast(cutlass.Float32)
        return self.shared(place if key == most else cutlass.Int32(_MOST), cutlass.min)

    @cute.jit
    def further(self, found: Any, group: Any, held: cute.Tensor) -> Any:
        """The largest key so far, and the first place of it, with one more group of values."""
        key, place = found
        for i in cutlass.range_constexpr(self.depth):
            # The sum with zero makes one zero of both, and one number of all that are none: the greatest as an integer.
            bits = (held[None, i].load().to(cutlass.Float32) + 0.0).bitcast(cutlass.Int32)
            start = (self.index(group, i) + self.part() * self.split.vectors) * self.split.vector
            for e in cutlass.range_constexpr(self.split.vector):
                one = ordered(bits[e])
                if cutlass.const_expr(self.function == "max"):
                    key = cutlass.max(key, one)
                else:
                    place = cutlass.Int32(start + e) if one > key else place
                    key = cutlass.max(key, one)
        return key, place


@cute.jit
def ordered(bits: cutlass.Int32) -> cutlass.Int32:
    """The bits of a float as an integer that is in the same order, and back."""
    return bits ^ ((bits >> 31) & _MOST)


def compile_reduce(dtype: Any, width: int, function: str, cluster: int, threads: int) -> Any:
    """Compile for one dtype, row length and function: rows and their stride are free, each row aligned to 16 bytes."""
    operation = Reduce(Split.of(width // cluster, dtype.width, threads), cluster, function)
    rows = cute.sym_int64()
    result = cutlass.Int64 if function == "argmax" else dtype
    out = make_fake_tensor(result, (rows,), (1,), assumed_align=result.width // 8)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(operation.reduce, matrix(dtype, rows, width), out, stream, options="--enable-tvm-ffi")
