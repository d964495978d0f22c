"""``gemm_f64`` as a CUTLASS operator: found, judged and compiled through CUTLASS's own interface.

Importing this module registers the operator, as CUTLASS's own are: ``cutlass.operators.get_operators`` then offers it
for products of float64. A manifest builds it as any operator, with the keys of ``gemm``::

    compile: "precast.kernels.own.matrix.device.f64_operator:GemmF64Operator"

The kernel is in ``gemm_f64.py`` beside this file; here is the interface that CUTLASS calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

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
from cutlass.operators.mma import AmpereMma
from cutlass.operators.providers.cutedsl import CuTeDSLProvider
from cutlass.operators.providers.cutedsl.operator import CuteDslOperator
from cutlass.operators.status import Status
from cutlass.operators.utils.device import to_cuda_stream

from precast.kernels.own.matrix.device.gemm_f64 import GemmF64
from precast.kernels.own.matrix.gemm_f64 import shape_of, staging
from precast.kernels.own.matrix.products import Design
from precast.loader.contract.format.target import Target

_ROWS, _COLUMNS = (0, 0, 1), (0, 1, 0)  # strides of (l, rows, columns): which dimension is contiguous
_DESIGNS: Mapping[tuple[int, int, int], Mapping[str, Any]] = {
    (128, 64, 16): {"warps": (2, 2), "stages": 4, "residents": 2},
    (64, 64, 16): {"warps": (2, 2), "stages": 4, "residents": 2},
}


@CuTeDSLProvider.register
class GemmF64Operator(CuteDslOperator):  # type: ignore[misc,unused-ignore]
    """``out = a @ b`` in float64, with any contiguous dimensions, in planes or not, aligned to 16 bytes or 8."""

    supported_args_type = GemmArguments
    designed_for_min_cc = 80

    def __init__(self, metadata: Any) -> None:
        super().__init__(metadata)
        operands, tile = metadata.operands, tuple(metadata.design.tile_shape)
        self.design = Design(
            tile=tile,
            **_DESIGNS[tile],
            align=operands.A.ptr_alignment_bytes,
            a_major="k" if operands.A.stride == _ROWS else "m",
            b_major="n" if operands.B.stride == _ROWS else "k",
            out_major="n" if operands.out.stride == _ROWS else "m",
        )

    def _supports(self, args: Any, target_sm: Any = None) -> Any:
        """What the metadata does not say: a target may have too little shared memory."""
        if not target_sm:
            return Status.success()
        target = Target.parse(f"sm_{target_sm}")
        reason = staging(self.design).refusal(_instruction(target), target)
        return Status.fail(reason) if reason else Status.success()

    def _compile(self, args: Any, target_sm: Any = None) -> Any:
        """Compile for the tensors of some arguments, of two dimensions or three."""
        target = target_sm or TargetSm(cutlass.cutlass_dsl.CuTeDSL._get_dsl().envar.arch.removeprefix("sm_"))
        kernel = GemmF64(
            staging(self.design),
            _instruction(Target.parse(f"sm_{target}")),
            exchanged=self.design.out_major == "m",
            align=self.design.align,
        )
        tensors = (args.A.tensor, args.B.tensor, args.out.tensor)
        return self.cute_compile(kernel.gemm, *tensors, cute.runtime.make_fake_stream(), target_sm=target)

    def _run(self, args: Any, compiled_artifact: Any, stream: Any, workspace: Any = None) -> None:
        """Launch what was compiled."""
        tensors = (args.A.tensor, args.B.tensor, args.out.tensor)
        self.cute_run(compiled_artifact.compiled_obj, *tensors, to_cuda_stream(stream))

    @classmethod
    def _metadata_operand_combinations(cls) -> Iterator[Any]:
        """What it takes: every choice of contiguous dimensions, aligned to two numbers or to one."""
        for align, *strides in product((2, 1), (_ROWS, _COLUMNS), (_ROWS, _COLUMNS), (_ROWS, _COLUMNS)):
            sides = (DenseTensorConstraints(cutlass.Float64, stride, align) for stride in strides)
            yield GemmOperandsMetadata(*sides, accumulator_type=cutlass.Float64)

    @classmethod
    def _generate_operators(
        cls,
        metadata_filter: Callable[[Any], bool],
        epilogue_args: Any = None,
        target_sm: Any = None,
        args: Any = None,
    ) -> list[Any]:
        """Every operator that the filter accepts; CUTLASS keeps those whose metadata fits the arguments."""
        if epilogue_args is not None:
            return []
        operators = []
        for operands, tile in product(cls._metadata_operand_combinations(), _DESIGNS):
            design = BLASDesignMetadata(mma_instruction_type=AmpereMma, tile_shape=tile, cluster_shape=(1, 1, 1))
            metadata = OperatorMetadata(_name(operands, tile), cls, [TargetSm("80")], operands, design)
            if metadata_filter(metadata):
                operators.append(cls(metadata))
        return operators


def _name(operands: Any, tile: tuple[int, int, int]) -> str:
    layout = "".join("t" if side.stride == _ROWS else "n" for side in (operands.A, operands.B, operands.out))
    return f"precast.GemmF64Operator_{layout}_align{operands.A.ptr_alignment_bytes}_tile{'x'.join(map(str, tile))}"


def _instruction(target: Target) -> tuple[int, int, int]:
    """The shape of the fastest instruction that a target has."""
    return shape_of("16x8x4" if target.major >= 9 else "8x8x4")
