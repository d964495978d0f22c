"""Arguments: what the operators are called with. Tensors without memory stand for the caller's; those that share a
dimension share its symbol, so that a call with shapes that do not fit together is refused.

The tensors are of device ``meta``: the first of torch's fake tensors imports torch's compiler, for two seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from precast.kernels.adapters.operators.config import Operands
from precast.kernels.adapters.operators.epilogue import Epilogue
from precast.kernels.authoring.dtypes import to_cutlass, to_torch
from precast.loader.contract.format.config import Config

_M, _N, _K, _L = 512, 1024, 256, 2  # of the tensors that the operators are called with; what is compiled is for any

FORMATS: Mapping[str, tuple[str, str, int]] = {
    "nvfp4": ("float4_e2m1fn", "float8_e4m3fn", 16),
    "mxfp4": ("float4_e2m1fn", "float8_e8m0fnu", 32),
    "mxfp8": ("float8_e4m3fn", "float8_e8m0fnu", 32),
}
"""Block-scaled formats: the dtype of the values, that of the scales, and how many values along k share a scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """Operands of a block-scaled GEMM: both k-major, in one format."""

    format: str
    out_dtype: str
    out_major: str = "n"

    @classmethod
    def of(cls, config: Config) -> Scaled:
        """The operands of a full config, which may hold more."""
        return cls(**{name: str(config[name]) for name in ("format", "out_dtype", "out_major")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """Operands of a grouped GEMM: the rows of ``a`` in groups, each with a ``b`` of its own."""

    dtype: str
    out_dtype: str

    @classmethod
    def of(cls, config: Config) -> Grouped:
        """The operands of a full config, which may hold more."""
        return cls(dtype=str(config["dtype"]), out_dtype=str(config["out_dtype"]))


Question = Operands | Scaled | Grouped


def make(question: Question) -> Any:
    """The operators' own description of a call."""
    if isinstance(question, Scaled):
        return _scaled(question)
    return _grouped(question) if isinstance(question, Grouped) else _dense(question)


def symbols(call: Any, operator: Any, question: Operands | Grouped) -> Any:
    """The same description for compiling: each dimension one symbol, wherever it appears, and every stride free."""
    import cutlass
    import cutlass.cute as cute

    metadata = operator.metadata.operands
    sides = {"a": metadata.A, "b": metadata.B, "out": metadata.out}
    grouped = isinstance(question, Grouped)
    shapes = {"a": "mk", "b": "gkn", "out": "mn"} if grouped else {"a": "mk", "b": "kn", "out": "mn"}
    batch = "l" if isinstance(question, Operands) and question.batched else ""
    rules = {name: (batch + dims, _major(sides[name], batch + dims), sides[name]) for name, dims in shapes.items()}
    steps = dict.fromkeys("glmnk", 1)
    for _, major, side in rules.values():
        steps[major] = max(steps[major], side.divisibility)
    dims = {name: cute.SymInt(32, divisibility=step, symbol=name) for name, step in steps.items()}

    def tensor(name: str) -> Any:
        letters, major, side = rules[name]
        shape = tuple(dims[letter] for letter in letters)
        free = tuple(1 if letter == major else cute.SymInt(64, divisibility=side.divisibility) for letter in letters)
        return cute.runtime.make_fake_tensor(side.dtype, shape, free, assumed_align=side.ptr_alignment_bytes)

    call.A.tensor.compile_time_tensor = tensor("a")
    call.B.tensor.compile_time_tensor = tensor("b")
    call.out.tensor.compile_time_tensor = tensor("out")
    if grouped:
        call.offsets.tensor.compile_time_tensor = cute.runtime.make_fake_tensor(
            cutlass.Int32, (dims["g"],), (1,), assumed_align=4
        )
    elif call.epilogue is not None:
        _epilogue_symbols(call.epilogue.tensors, tensor("out"), dims["n"])
    return call


def _epilogue_symbols(tensors: Mapping[str, Any], out: Any, n: Any) -> None:
    import cutlass.cute as cute

    for name, wrapper in tensors.items():
        if name == "D":
            wrapper.compile_time_tensor = out
        elif name == "C":
            strides = tuple(s if s == 1 else cute.SymInt(64, divisibility=s.divisibility) for s in out.stride)
            wrapper.compile_time_tensor = cute.runtime.make_fake_tensor(
                out.element_type, out.shape, strides, assumed_align=16
            )
        elif name == "bias":
            wrapper.compile_time_tensor = cute.runtime.make_fake_tensor(out.element_type, (n,), (1,), assumed_align=16)


def _major(constraints: Any, letters: str) -> str:
    """Which dimension an operand must have contiguous; a stride that is open is taken as row-major."""
    stride = constraints.stride or (0, 0, 1)
    return letters[stride[-len(letters) :].index(1)]


def _dense(question: Operands) -> Any:
    import cutlass.operators as ops

    a = _matrix(question.dtype, _M, _K, question.a_major == "k", question.batched)
    b = _matrix(question.dtype, _K, _N, question.b_major == "n", question.batched)
    out = _matrix(question.out_dtype, _M, _N, question.out_major == "n", question.batched)
    epilogue = None
    if question.epilogue:
        parsed = Epilogue.parse(question.epilogue)
        tensors = {"D": out, "bias": _empty((_N,), question.out_dtype), "alpha": 1.0, "beta": 1.0}
        tensors["C"] = _matrix(question.out_dtype, _M, _N, question.out_major == "n", question.batched)
        epilogue = ops.EpilogueArguments(parsed.source, **{name: tensors[name] for name in (*parsed.inputs, "D")})
    return ops.GemmArguments(a, b, out, accumulator_type=to_cutlass(question.accumulator), epilogue=epilogue)


def _scaled(question: Scaled) -> Any:
    import cutlass.operators as ops

    dtype, scale, block = FORMATS[question.format]
    packed = 2 if dtype.startswith("float4") else 1
    mode = ops.ScaleMode.Blockwise1x16 if block == 16 else ops.ScaleMode.Blockwise1x32
    swizzle = ops.ScaleSwizzleMode.Swizzle32x4x4

    def operand(tensor: Any, outer: int) -> Any:
        return ops.ScaledOperand(tensor, _empty((outer * _K // block,), scale), mode, swizzle)

    a = operand(_empty((_M, _K // packed), dtype), _M)
    b = operand(_empty((_N, _K // packed), dtype).T, _N)
    out = _matrix(question.out_dtype, _M, _N, question.out_major == "n")
    return ops.GemmArguments(a, b, out, accumulator_type=to_cutlass("float32"))


def _grouped(question: Grouped) -> Any:
    import cutlass.operators as ops

    a, out = _matrix(question.dtype, _M, _K), _matrix(question.out_dtype, _M, _N)
    b = _matrix(question.dtype, _K, _N, False, True)
    offsets = _empty((_L,), "int32")
    return ops.IndexPtrGroupedGemmArguments(
        a, b, out, accumulator_type=to_cutlass("float32"), offsets=offsets, offsets_along="m"
    )


def _matrix(dtype: str, rows: int, columns: int, row_major: bool = True, batched: bool = False) -> Any:
    batch = (_L,) if batched else ()
    if row_major:
        return _empty((*batch, rows, columns), dtype)
    return _empty((*batch, columns, rows), dtype).transpose(-1, -2)


def _empty(shape: tuple[int, ...], dtype: str) -> Any:
    import torch

    return torch.empty(shape, dtype=to_torch(dtype), device="meta")
