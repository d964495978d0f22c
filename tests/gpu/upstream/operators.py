"""CUTLASS's operators: ``operator.compile(args)`` gives the library's own artifact, with a kernel of the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.gpu.upstream.asked import Answer, Asked, refuse
from tests.gpu.upstream.quack import name


def install(answer: Answer) -> None:
    """Replace the one method through which every operator is compiled."""
    from cutlass.operators.arch import TargetSm
    from cutlass.operators.artifact import CompiledArtifact
    from cutlass.operators.base import Operator
    from cutlass.operators.utils.device import device_or_env_target_sm

    def compile_operator(self: Any, args: Any, target_sm: Any = None) -> Any:
        here = device_or_env_target_sm()

        def asked() -> Asked:
            refuse(code_for_another_GPU=target_sm is not None and TargetSm.ensure(target_sm) != here)
            return dense(self.metadata, args)

        kernel = answer(asked)
        return CompiledArtifact(compiled_obj=on_stream(kernel), operator_obj=self, compiled_for=here)

    Operator.compile = compile_operator


def open_operators() -> None:
    """This library registers none with torch."""


def dense(metadata: Any, args: Any) -> Asked:
    """``gemm``, for what an operator says of itself and the arguments that it is compiled for."""
    from cutlass.operators import GemmArguments
    from cutlass.operators.arguments import DenseTensor
    from cutlass.operators.config import GlobalOptions

    from precast.kernels.adapters.operators.config import Design

    refuse(the_calling_convention_without_TVM_FFI=not GlobalOptions().use_tvm_ffi)
    sides = [args.A, args.B, args.out] if isinstance(args, GemmArguments) else []
    refuse(
        these_operands=not sides or not all(isinstance(side, DenseTensor) for side in sides),
        this_epilogue=metadata.epilogue is not None,
    )
    operands, design = metadata.operands, Design.of_metadata(metadata)
    refuse(operands_of_two_dtypes=operands.A.dtype != operands.B.dtype)
    config = {
        "dtype": name(operands.A.dtype),
        "out_dtype": name(operands.out.dtype),
        "accumulator": name(operands.accumulator_type),
        "a_major": _major(operands.A, "mk"),
        "b_major": _major(operands.B, "kn"),
        "out_major": _major(operands.out, "mn"),
        "batched": len(args.out.tensor.shape) == 3,
        "epilogue": "",
    }
    tuned = {key: getattr(design, key) for key in Design.__slots__}
    return Asked("gemm", config, {k: list(v) if isinstance(v, tuple) else v for k, v in tuned.items()})


def _major(side: Any, letters: str) -> str:
    return letters[tuple(side.stride)[-2:].index(1)]


def on_stream(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """What the library calls: its last argument is the stream, which our kernels take from torch instead."""

    def launch(*args: Any) -> None:
        import torch

        *tensors, stream = args
        handle = stream.cuda_stream if hasattr(stream, "cuda_stream") else int(stream)
        if handle == torch.cuda.current_stream().cuda_stream:
            kernel(*tensors)
            return
        with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
            kernel(*tensors)

    return launch
