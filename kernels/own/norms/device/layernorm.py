"""``layernorm`` on the device: several lanes share a row, and a block takes as many rows as its threads allow."""

from __future__ import annotations

import operator
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.rows import Rows, matrix, vector
from precast.kernels.own.rows import Split


class LayerNorm(Rows):
    """``out = (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * weight + bias``, row by row, in float32.

    The mean is computed first, and then the deviations from it: ``mean(x * x) - mean(x) ** 2`` would cancel digits.
    """

    @cute.jit
    def layernorm(
        self,
        x: cute.Tensor,
        weight: cute.Tensor,
        bias: cute.Tensor | None,
        out: cute.Tensor,
        eps: cutlass.Float32,
        stream: Any,
    ) -> None:
        """Launch."""
        self.kernel(x, weight, bias, out, eps).launch(
            grid=[self.grid(x), 1, 1], block=[self.split.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(
        self, x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor | None, out: cute.Tensor, eps: cutlass.Float32
    ) -> None:
        """The rows of one block. All its threads take the same branch, so barriers inside it are allowed."""
        wait_for_previous_launch()
        thread, _, _ = cute.arch.thread_idx()
        total, first = cute.size(x, mode=[0]), self.first()
        if first < total:
            row = self.split.row(first, thread)
            # Lanes without a row read and write nothing, at the offset of the last row: it may be overwritten in place.
            safe = cutlass.min(row, total - 1)
            source, target = self.offset(x, safe), self.offset(out, safe)
            vectors = self.registers(x.element_type)
            if cutlass.const_expr(self.in_registers):
                self.fetch(x, source, 0, vectors, 0.0, self.present(row, total))

            def add(total: Any, group: Any) -> Any:
                return vectors.load().to(cutlass.Float32).reduce(cute.ReductionOp.ADD, total, 0)

            mean = self.mean(self.fold(x, source, vectors, add, cutlass.Float32(0)))
            deviation = self.fold(
                x,
                source,
                vectors,
                lambda value, group: self.deviations(value, group, vectors, mean),
                cutlass.Float32(0),
            )
            factor = cute.math.rsqrt(self.mean(deviation) + eps)
            if row < total:
                self.fold(
                    x,
                    source,
                    vectors,
                    lambda value, group: self.write(value, out, target, group, vectors, mean, weight, bias),
                    factor,
                )

    @cute.jit
    def mean(self, value: cutlass.Float32) -> cutlass.Float32:
        """The mean of a row, of the sums of its lanes."""
        return self.shared(value, operator.add) * (1.0 / self.columns)

    @cute.jit
    def deviations(self, sum_of_squares: Any, group: Any, vectors: cute.Tensor, mean: cutlass.Float32) -> Any:
        """The sum of the squares of deviations, with one more group. A vector that a lane lacks was filled with zeros,
        which deviate from the mean: it must not count."""
        for i in cutlass.range_constexpr(self.depth):
            deviation = vectors[None, i].load().to(cutlass.Float32) - mean
            total = (deviation * deviation).reduce(cute.ReductionOp.ADD, cutlass.Float32(0), 0)
            if cutlass.const_expr(self.complete(group, i)):
                sum_of_squares = sum_of_squares + total
            else:
                sum_of_squares = sum_of_squares + (
                    total if self.index(group, i) < self.split.vectors else cutlass.Float32(0)
                )
        return sum_of_squares

    @cute.jit
    def write(
        self,
        factor: Any,
        out: cute.Tensor,
        base: Any,
        group: Any,
        vectors: cute.Tensor,
        mean: cutlass.Float32,
        weight: cute.Tensor,
        bias: cute.Tensor | None,
    ) -> Any:
        """Store the results of a group."""
        for i in cutlass.range_constexpr(self.depth):
            weights = cute.make_rmem_tensor(self.split.vector, weight.element_type)
            self.fetch_one(weight, cutlass.Int64(0), group, i, weights)
            values = (vectors[None, i].load().to(cutlass.Float32) - mean) * factor
            values = values * weights.load().to(cutlass.Float32)
            if cutlass.const_expr(bias is not None):
                self.fetch_one(bias, cutlass.Int64(0), group, i, weights)
                values = values + weights.load().to(cutlass.Float32)
            self.store(out, base, group, i, values)
        return factor


def compile_layernorm(dtype: Any, hidden: int, bias: bool, threads: int) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = LayerNorm(Split.of(hidden, dtype.width, threads))
    rows = cute.sym_int64()
    return cute.compile(
        operation.layernorm,
        matrix(dtype, rows, hidden),
        vector(dtype, hidden),
        vector(dtype, hidden) if bias else None,
        matrix(dtype, rows, hidden),
        cutlass.Float32(1e-5),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
