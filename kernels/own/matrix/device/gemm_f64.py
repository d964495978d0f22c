"""``gemm_f64`` on the device: products of float64 by tensor cores, through a ring of stages."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream
from cutlass.utils import SmemAllocator

from precast.kernels.own.matrix.device import planes, result
from precast.kernels.own.matrix.device.ptx import multiply_f64
from precast.kernels.own.matrix.device.ring import Ring
from precast.kernels.own.matrix.staging import WARP, Staging


class GemmF64:
    """``out = a @ b``, for any sizes, layouts, and number of planes.

    Each warp has a part of the tile, and each thread a few numbers of every 8 by 8 of its sums, as the instruction
    deals them out. In a step, a thread reads its numbers of both sides from the stage and multiplies.
    """

    def __init__(self, staging: Staging, instruction: tuple[int, int, int], *, exchanged: bool, align: int) -> None:
        self.staging, self.instruction, self.exchanged, self.align = staging, instruction, exchanged, align
        self.ring = Ring(staging)
        self.rows = staging.warp_rows // instruction[0]
        self.columns = staging.warp_columns // instruction[1]

    @cute.jit
    def gemm(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch; an empty result takes none."""
        if cute.size(out) > 0:
            self.launch(a, b, out, stream)

    @cute.jit
    def launch(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """One block for each tile of each plane."""
        staging = self.staging
        first, second, to = planes.sides(a, b, out, exchanged=self.exchanged)
        rows, columns = staging.tiles(cutlass.Int32(to.shape[0]), cutlass.Int32(to.shape[1]))
        self.kernel(first, second, to).launch(
            grid=[rows * columns * to.shape[2], 1, 1],
            block=[staging.threads, 1, 1],
            stream=stream,
            min_blocks_per_mp=staging.residents,
            preferred_smem_carveout=100,
        )

    @cute.kernel
    def kernel(self, first: cute.Tensor, second: cute.Tensor, to: cute.Tensor) -> None:
        """One tile."""
        staging = self.staging
        block, _, _ = cute.arch.block_idx()
        rows, columns = staging.tiles(cutlass.Int32(to.shape[0]), cutlass.Int32(to.shape[1]))
        number, block = block // (rows * columns), block % (rows * columns)
        row, column = staging.tile(block, rows, columns, cutlass.min)
        row, column = row * staging.first.along, column * staging.second.along
        first, second = (planes.plane(side, number, self.align) for side in (first, second))

        first_stages, second_stages = self.ring.allocate(SmemAllocator(), cutlass.Float64)
        sums = cute.make_rmem_tensor((self.each, self.columns, self.rows), cutlass.Float64)
        sums.fill(0)

        self.ring.begin(first, second, row, column, first_stages, second_stages)
        steps = staging.steps(cutlass.Int32(first.shape[1]))
        read, fill = cutlass.Int32(0), cutlass.Int32(staging.stages - 1)
        for step in cutlass.range(steps, unroll=1):
            self.ring.next()
            ahead = step + (staging.stages - 1)
            self.ring.fill(first, second, row, column, first_stages, second_stages, ahead, fill)
            self.multiply(
                self.ring.stage(first_stages, staging.first, read), self.ring.stage(second_stages, staging.second, read), sums
            )
            fill = read
            read += 1
            if read == staging.stages:
                read = cutlass.Int32(0)
        self.ring.end()
        self.store(planes.plane(to, number, self.align), row, column, sums)

    @property
    def each(self) -> int:
        """How many numbers of the result of one instruction a thread has."""
        return self.instruction[0] * self.instruction[1] // WARP

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
            eights = [
                [a[staging.first.at(top + i * m + j * 8 + group, at)] for at in deep for j in range(m // 8)]
                for i in range(self.rows)
            ]
            others = [[b[staging.second.at(left + i * n + group, at)] for at in deep] for i in range(self.columns)]
            for i in cutlass.range_constexpr(self.rows):
                for j in cutlass.range_constexpr(self.columns):
                    held = [sums[e, j, i] for e in range(self.each)]
                    added = multiply_f64(self.instruction, eights[i], others[j], held)
                    for e in cutlass.range_constexpr(self.each):
                        sums[e, j, i] = added[e]

    @cute.jit
    def store(self, to: cute.Tensor, row: cutlass.Int32, column: cutlass.Int32, sums: cute.Tensor) -> None:
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


def compile_gemm(
    staging: Staging, instruction: tuple[int, int, int], majors: Any, *, align: int, batched: bool
) -> Any:
    """Compile for matrices with these contiguous dimensions, whose lines are aligned to some bytes."""
    dtypes = dict.fromkeys(("a", "b", "out"), cutlass.Float64)
    a, b, out = planes.stand_ins(dtypes, majors, align, batched=batched)
    operation = GemmF64(staging, instruction, exchanged=majors["out"] == "m", align=align)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(operation.gemm, a, b, out, stream, options="--enable-tvm-ffi")
