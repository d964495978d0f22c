"""``sgemm`` on the device: products of float32 by the ordinary multiply-add instruction, one number at a time."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.matrix.device import planes, result
from precast.kernels.own.matrix.device.staged_gemm import StagedGemm
from precast.kernels.own.matrix.staging import Staging, Threads

_VECTOR = 4  # numbers that are read at once


class Sgemm(StagedGemm):
    """``out = a @ b``, rows contiguous, for any sizes.

    A thread has 8 by 8 numbers of the result: 8 rows, and two runs of 4 columns. What it reads of a stage serves 64
    multiplications for every 16 numbers, so that reading takes less time than multiplying.
    """

    def __init__(self, staging: Staging, threads: Threads, align: int) -> None:
        super().__init__(staging, cutlass.Float32, cutlass.Float32, (threads.columns, threads.rows), align)
        self.threads = threads

    @cute.jit
    def multiply(self, first: cute.Pointer, second: cute.Pointer, sums: cute.Tensor) -> None:
        """Add the product of one stage to the sums: four steps of k for each reading of the first side."""
        staging, threads = self.staging, self.threads
        top, left = self.corner()
        a = cute.make_rmem_tensor((_VECTOR, threads.rows), cutlass.Float32)
        b = cute.make_rmem_tensor((_VECTOR, threads.columns // _VECTOR), cutlass.Float32)
        for start in cutlass.range_constexpr(0, staging.depth, _VECTOR):
            for i in cutlass.range_constexpr(threads.rows):
                self.read(first, staging.first.at(top + threads.row(i), start), a[None, i])
            for k in cutlass.range_constexpr(_VECTOR):
                for j in cutlass.range_constexpr(threads.columns // _VECTOR):
                    self.read(second, staging.second.at(left + threads.column(j), start + k), b[None, j])
                for i in cutlass.range_constexpr(threads.rows):
                    for j in cutlass.range_constexpr(threads.columns):
                        sums[j, i] = cute.math.fma(a[k, i], b[j % _VECTOR, j // _VECTOR], sums[j, i])

    @cute.jit
    def read(self, stage: cute.Pointer, offset: cutlass.Int32, to: cute.Tensor) -> None:
        """Read four neighbours."""
        pointer = stage + cute.assume(offset, divby=_VECTOR)
        cute.autovec_copy(cute.make_tensor(pointer, cute.make_layout(_VECTOR)), to)

    @cute.jit
    def store(
        self, shared: cute.Pointer, to: cute.Tensor, row: cutlass.Int32, column: cutlass.Int32, sums: cute.Tensor
    ) -> None:
        """Store this thread's sums, four neighbours of a row at a time."""
        threads = self.threads
        top, left = self.corner()
        four = cute.make_rmem_tensor(_VECTOR, cutlass.Float32)
        for i in cutlass.range_constexpr(threads.rows):
            for j in cutlass.range_constexpr(threads.columns // _VECTOR):
                for e in cutlass.range_constexpr(_VECTOR):
                    four[e] = sums[j * _VECTOR + e, i]
                result.store(to, row + top + threads.row(i), column + left + threads.column(j), four, self.align == 16)

    def corner(self) -> Any:
        """The first row and column of this thread in the tile."""
        top, left = self.staging.corner(cute.arch.make_warp_uniform(cute.arch.warp_idx()))
        down, right = self.threads.first(cute.arch.lane_idx())
        return top + down, left + right


def compile_gemm(staging: Staging, threads: Threads, align: int) -> Any:
    """Compile for matrices whose rows are contiguous, and aligned to some bytes."""
    dtypes = dict.fromkeys(("a", "b", "out"), cutlass.Float32)
    a, b, out = planes.stand_ins(dtypes, {"a": "k", "b": "n", "out": "n"}, align)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    operation = Sgemm(staging, threads, align)
    return cute.compile(operation.gemm, a, b, out, stream, options="--enable-tvm-ffi")
