"""``rmsnorm`` on the device: several lanes share a row, and a block takes as many rows as its threads allow."""

from __future__ import annotations

import operator
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.rows import Rows, matrix, vector
from precast.kernels.own.rows import Split


class RmsNorm(Rows):
    """``out = x / sqrt(mean(x * x) + eps) * weight``, row by row, computed in float32.

    A row is read from memory once where it fits in the registers of its lanes, else a second time for the output.
    """

    @cute.jit
    def rmsnorm(self, x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: cutlass.Float32, stream: Any) -> None:
        """Launch."""
        self.kernel(x, weight, out, eps).launch(
            grid=[self.grid(x), 1, 1], block=[self.split.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: cutlass.Float32) -> None:
        """The rows of one block. All its threads take the same branch, so a barrier inside it is allowed."""
        wait_for_previous_launch()
        thread, _, _ = cute.arch.thread_idx()
        total, first = cute.size(x, mode=[0]), self.first()
        if first < total:
            row = self.split.row(first, thread)
            # Lanes without a row read and write nothing, at the offset of the last row: it may be overwritten in place.
            safe = cutlass.min(row, total - 1)
            source, target = self.offset(x, safe), self.offset(out, safe)
            vectors, weights = self.registers(x.element_type), self.registers(weight.element_type)
            if cutlass.const_expr(self.in_registers):
                self.fetch(x, source, 0, vectors, 0.0, self.present(row, total))
                self.fetch(weight, cutlass.Int64(0), 0, weights)
            lane_sum = self.fold(x, source, vectors, lambda value, group: squares(value, vectors), cutlass.Float32(0))
            factor = cute.math.rsqrt(self.shared(lane_sum, operator.add) * (1.0 / self.columns) + eps)
            if row < total:
                self.fold(
                    x,
                    source,
                    vectors,
                    lambda value, group: self.write(value, out, target, group, vectors, weight, weights),
                    factor,
                )

    @cute.jit
    def write(
        self,
        factor: cutlass.Float32,
        out: cute.Tensor,
        base: cutlass.Int64,
        group: Any,
        vectors: cute.Tensor,
        weight: cute.Tensor,
        weights: cute.Tensor,
    ) -> Any:
        """Store the results of a group."""
        if cutlass.const_expr(not self.in_registers):
            self.fetch(weight, cutlass.Int64(0), group, weights)
        for i in cutlass.range_constexpr(self.depth):
            values = vectors[None, i].load().to(cutlass.Float32) * factor * weights[None, i].load().to(cutlass.Float32)
            self.store(out, base, group, i, values)
        return factor


@cute.jit
def squares(total: cutlass.Float32, vectors: cute.Tensor) -> Any:
    """The sum of the squares of a lane's vectors, added to its sum of earlier groups."""
    values = vectors.load().to(cutlass.Float32)
    return (values * values).reduce(cute.ReductionOp.ADD, total, 0)


def compile_rmsnorm(dtype: Any, hidden: int, threads: int) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = RmsNorm(Split.of(hidden, dtype.width, threads))
    rows = cute.sym_int64()
    return cute.compile(
        operation.rmsnorm,
        matrix(dtype, rows, hidden),
        vector(dtype, hidden),
        matrix(dtype, rows, hidden),
        cutlass.Float32(1e-6),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
