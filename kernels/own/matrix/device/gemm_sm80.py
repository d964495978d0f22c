"""``gemm_sm80`` on the device: products of 16-bit numbers by tensor cores, as every GPU since Ampere has them."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.matrix.device import planes, result
from precast.kernels.own.matrix.device.ptx import multiply_16, read_matrices
from precast.kernels.own.matrix.device.staged_gemm import StagedGemm
from precast.kernels.own.matrix.staging import MATRIX, Side, Staging

_ALIGN = 16


class GemmSm80(StagedGemm):
    """``out = a @ b``, summed in float32, for any sizes and layouts of the sides.

    Each warp has a part of the tile. In a step it reads matrices of 8 by 8 out of the stage, four at a time, as the
    tensor core takes them, and multiplies. The result goes through shared memory, so that whole lines are written.
    """

    def __init__(self, staging: Staging, dtype: Any, out_dtype: Any) -> None:
        self.out_dtype, self.vector = out_dtype, _ALIGN * 8 // out_dtype.width
        self.rows, self.columns = staging.warp_rows // 16, staging.warp_columns // 8
        self.pitch = staging.second.along + self.vector  # in shared memory; so that neighbouring rows differ in banks
        least = staging.first.along * self.pitch * out_dtype.width // 8
        super().__init__(staging, dtype, cutlass.Float32, (4, self.columns, self.rows), _ALIGN, least=least)

    @cute.jit
    def multiply(self, first: cute.Pointer, second: cute.Pointer, sums: cute.Tensor) -> None:
        """Add the product of one stage to the sums."""
        staging = self.staging
        top, left = staging.corner(cute.arch.make_warp_uniform(cute.arch.warp_idx()))
        for start in cutlass.range_constexpr(0, staging.depth, 16):
            a = [self.read(staging.first, first, top + 16 * i, start, True) for i in range(self.rows)]
            b = [self.read(staging.second, second, left + 16 * i, start, False) for i in range(self.columns // 2)]
            for i in cutlass.range_constexpr(self.rows):
                for j in cutlass.range_constexpr(self.columns):
                    fragment = [sums[e, j, i] for e in range(4)]
                    two = b[j // 2][2 * (j % 2) : 2 * (j % 2) + 2]
                    added = multiply_16(self.dtype, a[i], two, fragment)
                    for e in cutlass.range_constexpr(4):
                        sums[e, j, i] = added[e]

    def read(self, side: Side, stage: Any, along: Any, k: int, by_rows: bool) -> Any:
        """This thread's registers of 16 by 16 numbers of a side: of four matrices, those of ``along`` first."""
        down, right = side.matrix_row(cute.arch.lane_idx(), by_rows)
        return read_matrices(stage + side.at(along + down, k + right), transposed=not side.contiguous_k)

    @cute.jit
    def stage_sums(self, staged: cute.Pointer, sums: cute.Tensor) -> None:
        """Round this thread's sums and store them in shared memory."""
        group, member = cute.arch.lane_idx() >> 2, cute.arch.lane_idx() & 3
        top, left = self.staging.corner(cute.arch.make_warp_uniform(cute.arch.warp_idx()))
        two = cute.make_rmem_tensor(2, cutlass.Float32)
        rounded = cute.make_rmem_tensor(2, self.out_dtype)
        for i in cutlass.range_constexpr(self.rows):
            for j in cutlass.range_constexpr(self.columns):
                for half in cutlass.range_constexpr(2):
                    two[0], two[1] = sums[2 * half, j, i], sums[2 * half + 1, j, i]
                    rounded.store(two.load().to(self.out_dtype))
                    row, column = top + 16 * i + 8 * half + group, left + MATRIX * j + 2 * member
                    pointer = staged + cute.assume(row * self.pitch + column, divby=2)
                    cute.autovec_copy(rounded, cute.make_tensor(pointer, cute.make_layout(2)))

    @cute.jit
    def store(
        self, shared: cute.Pointer, to: cute.Tensor, row: cutlass.Int32, column: cutlass.Int32, sums: cute.Tensor
    ) -> None:
        """Store the tile, staged in shared memory."""
        staged = cute.recast_ptr(shared, dtype=self.out_dtype)
        self.stage_sums(staged, sums)
        cute.arch.sync_threads()
        self.write(staged, to, row, column)

    @cute.jit
    def write(self, staged: cute.Pointer, to: cute.Tensor, row: cutlass.Int32, column: cutlass.Int32) -> None:
        """Write the tile, 16 bytes at a time, with neighbouring threads at neighbouring addresses."""
        staging = self.staging
        thread, _, _ = cute.arch.thread_idx()
        across = staging.second.along // self.vector
        values = cute.make_rmem_tensor(self.vector, self.out_dtype)
        for i in cutlass.range_constexpr(staging.first.along * across // staging.threads):
            index = thread + i * staging.threads
            down, right = index // across, index % across * self.vector
            pointer = staged + cute.assume(down * self.pitch + right, divby=self.vector)
            cute.autovec_copy(cute.make_tensor(pointer, cute.make_layout(self.vector)), values)
            result.store(to, row + down, column + right, values, True)


def compile_gemm(staging: Staging, dtype: Any, out_dtype: Any, majors: Any) -> Any:
    """Compile for matrices with these contiguous dimensions."""
    a, b, out = planes.stand_ins({"a": dtype, "b": dtype, "out": out_dtype}, majors, _ALIGN)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    operation = GemmSm80(staging, dtype, out_dtype)
    return cute.compile(operation.gemm, a, b, out, stream, options="--enable-tvm-ffi")
