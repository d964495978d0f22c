"""What products of matrices through a ring of stages have in common: all but how a stage is multiplied and stored."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.utils import SmemAllocator

from precast.kernels.own.matrix.device import planes
from precast.kernels.own.matrix.device.ring import Ring
from precast.kernels.own.matrix.staging import Staging


class StagedGemm:
    """``out = a @ b``, one block for each tile of the result: a kernel adds ``multiply`` and ``store``.

    ``dtype`` is the sides', ``summed`` that of the sums, of which a thread has as many as ``shape`` says. The lines of
    all matrices are aligned to ``align`` bytes. ``exchanged`` computes the transposed product, ``least`` is how many
    bytes of shared memory ``store`` needs.
    """

    def __init__(
        self,
        staging: Staging,
        dtype: Any,
        summed: Any,
        shape: Any,
        align: int,
        *,
        exchanged: bool = False,
        least: int = 0,
    ) -> None:
        self.staging, self.dtype, self.summed, self.shape = staging, dtype, summed, shape
        self.align, self.exchanged, self.least = align, exchanged, least
        self.ring = Ring(staging)

    def multiply(self, first: Any, second: Any, sums: Any) -> None:
        """Add the product of one stage to the sums."""
        raise NotImplementedError

    def store(self, shared: Any, to: Any, row: Any, column: Any, sums: Any) -> None:
        """Store the sums in the tile whose first row and column these are; the shared memory is free."""
        raise NotImplementedError

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
        """One tile: sum over all steps of k, while later steps are being copied."""
        staging = self.staging
        block, _, _ = cute.arch.block_idx()
        rows, columns = staging.tiles(cutlass.Int32(to.shape[0]), cutlass.Int32(to.shape[1]))
        number, block = block // (rows * columns), block % (rows * columns)
        row, column = staging.tile(block, rows, columns, cutlass.min)
        row, column = row * staging.first.along, column * staging.second.along
        first, second, to = (planes.plane(matrix, number, self.align) for matrix in (first, second, to))

        first_stages, second_stages = self.ring.allocate(SmemAllocator(), self.dtype, self.least)
        sums = cute.make_rmem_tensor(self.shape, self.summed)
        sums.fill(0)
        self.ring.begin(first, second, row, column, first_stages, second_stages)
        steps = staging.steps(cutlass.Int32(first.shape[1]))
        read, fill = cutlass.Int32(0), cutlass.Int32(staging.stages - 1)
        for step in cutlass.range(steps, unroll=1):
            self.ring.next()
            self.multiply(
                self.ring.stage(first_stages, staging.first, read),
                self.ring.stage(second_stages, staging.second, read),
                sums,
            )
            ahead = step + (staging.stages - 1)
            self.ring.fill(first, second, row, column, first_stages, second_stages, ahead, fill)
            fill = read  # the next step overwrites what this one has read, once all threads have
            read += 1
            if read == staging.stages:
                read = cutlass.Int32(0)
        self.ring.end()  # ``store`` reuses the stages
        self.store(first_stages, to, row, column, sums)
