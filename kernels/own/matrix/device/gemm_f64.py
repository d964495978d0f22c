"""``gemm_f64`` on the device: products of float64 by tensor cores, through a ring of stages."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.matrix.device import planes, result
from precast.kernels.own.matrix.device.ptx import multiply_f64
from precast.kernels.own.matrix.device.staged_gemm import StagedGemm
from precast.kernels.own.matrix.products import Design
from precast.kernels.own.matrix.staging import WARP, Staging


class GemmF64(StagedGemm):
    """``out = a @ b``, for any sizes, layouts, and number of planes.

    Each warp has a part of the tile, and each thread a few numbers of every 8 by 8 of its sums, as the instruction
    deals them out. In a step, a thread reads its numbers of both sides from the stage and multiplies.
    """

    def __init__(self, staging: Staging, instruction: tuple[int, int, int], *, exchanged: bool, align: int) -> None:
        m, n, _ = self.instruction = instruction
        self.rows, self.columns = staging.warp_rows // m, staging.warp_columns // n
        self.each = m * n // WARP  # how many numbers of the result of one instruction a thread has
        shape = (self.each, self.columns, self.rows)
        super().__init__(staging, cutlass.Float64, cutlass.Float64, shape, align, exchanged=exchanged)

    @cute.jit
    def multiply(self, first: cute.Pointer, second: cute.Pointer, sums: cute.Tensor) -> None:
        """Add the product of one stage to the sums."""
        staging, (m, n, k) = self.staging, self.instruction
        group, member = cute.arch.lane_idx() >> 2, cute.arch.lane_idx() & 3
        top, left = staging.corner(cute.arch.make_warp_uniform(cute.arch.warp_idx()))
        a = cute.make_tensor(first, cute.make_layout(staging.first.elements))
        b = cute.make_tensor(second, cute.make_layout(staging.second.elements))
        for start in cutlass.range_constexpr(0, staging.depth, k):
            deep = [start + 4 * i + member for i in range(k // 4)]
            a_values = [
                [a[staging.first.at(top + i * m + j * 8 + group, at)] for at in deep for j in range(m // 8)]
                for i in range(self.rows)
            ]
            b_values = [[b[staging.second.at(left + i * n + group, at)] for at in deep] for i in range(self.columns)]
            for i in cutlass.range_constexpr(self.rows):
                for j in cutlass.range_constexpr(self.columns):
                    fragment = [sums[e, j, i] for e in range(self.each)]
                    added = multiply_f64(self.instruction, a_values[i], b_values[j], fragment)
                    for e in cutlass.range_constexpr(self.each):
                        sums[e, j, i] = added[e]

    @cute.jit
    def store(
        self, shared: cute.Pointer, to: cute.Tensor, row: cutlass.Int32, column: cutlass.Int32, sums: cute.Tensor
    ) -> None:
        """Store this thread's sums: two neighbours of a row at a time."""
        staging, (m, n, _) = self.staging, self.instruction
        group, member = cute.arch.lane_idx() >> 2, cute.arch.lane_idx() & 3
        top, left = staging.corner(cute.arch.make_warp_uniform(cute.arch.warp_idx()))
        two = cute.make_rmem_tensor(2, cutlass.Float64)
        for i in cutlass.range_constexpr(self.rows):
            for j in cutlass.range_constexpr(self.columns):
                for half in cutlass.range_constexpr(m // 8):
                    two[0], two[1] = sums[2 * half, j, i], sums[2 * half + 1, j, i]
                    at = column + left + j * n + 2 * member
                    result.store(to, row + top + i * m + half * 8 + group, at, two, self.align == 16)


def compile_gemm(staging: Staging, instruction: tuple[int, int, int], design: Design, *, batched: bool) -> Any:
    """Compile for matrices with the contiguous dimensions and the alignment of the design."""
    dtypes = dict.fromkeys(("a", "b", "out"), cutlass.Float64)
    a, b, out = planes.stand_ins(dtypes, design.majors, design.align, batched=batched)
    operation = GemmF64(staging, instruction, exchanged=design.out_major == "m", align=design.align)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(operation.gemm, a, b, out, stream, options="--enable-tvm-ffi")
