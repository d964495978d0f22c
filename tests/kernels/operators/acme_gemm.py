"""A GEMM in float64, one thread an element, as an operator of one's own."""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass.operators.arch import TargetSm
from cutlass.operators.arguments import GemmArguments
from cutlass.operators.metadata import (
    BLASDesignMetadata,
    DenseTensorConstraints,
    GemmOperandsMetadata,
    OperatorMetadata,
)
from cutlass.operators.providers.cutedsl import CuTeDSLProvider
from cutlass.operators.providers.cutedsl.operator import CuteDslOperator


class Plain:
    def __init__(self, tile):
        self.tile = tile

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, stream: cuda.CUstream):
        m, n = c.shape
        grid = (cute.ceil_div(m, self.tile[0]), cute.ceil_div(n, self.tile[1]), 1)
        self.kernel(a, b, c).launch(grid=grid, block=(self.tile[0], self.tile[1], 1), stream=stream)

    @cute.kernel
    def kernel(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        x, y, _ = cute.arch.block_idx()
        i, j, _ = cute.arch.thread_idx()
        row, column = x * self.tile[0] + i, y * self.tile[1] + j
        m, n = c.shape
        if row < m and column < n:
            total = cutlass.Float64(0)
            for k in range(a.shape[1]):
                total += a[row, k] * b[k, column]
            c[row, column] = total


@CuTeDSLProvider.register
class PlainOperator(CuteDslOperator):
    supported_args_type = GemmArguments
    designed_for_min_cc = 80

    def __init__(self, metadata):
        super().__init__(metadata)
        self.impl = Plain(metadata.design.tile_shape[:2])

    def _compile(self, args, target_sm=None):
        stream = cutlass.cute.runtime.make_fake_stream()
        return self.cute_compile(self.impl, args.A.tensor, args.B.tensor, args.out.tensor, stream, target_sm=target_sm)

    def _run(self, args, compiled_artifact, stream, workspace=None):
        raise NotImplementedError

    @classmethod
    def _generate_operators(cls, metadata_filter, epilogue_args=None, target_sm=None, args=None):
        row, found = (0, 0, 1), []
        if epilogue_args is not None:
            return found
        for tile in ((32, 32, 1), (16, 16, 1)):
            side = DenseTensorConstraints(cutlass.Float64, row, 1)
            operands = GemmOperandsMetadata(side, side, side, accumulator_type=cutlass.Float64)
            design = BLASDesignMetadata(mma_instruction_type=None, tile_shape=tile, cluster_shape=(1, 1, 1))
            metadata = OperatorMetadata(f"plain{tile}", cls, [TargetSm("80")], operands, design)
            if metadata_filter(metadata):
                found.append(cls(metadata))
        return found
