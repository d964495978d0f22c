"""Conversion of dtype names to the classes of torch and the DSL, and back; neither is imported early."""

from __future__ import annotations

from typing import Any

from precast.loader.contract.format.config import dtype_name
from precast.loader.errors import ConfigError

_BITS = {
    "float64": 64, "float32": 32, "tfloat32": 32, "float16": 16, "bfloat16": 16,
    "float8_e4m3fn": 8, "float8_e5m2": 8, "float8_e8m0fnu": 8, "float4_e2m1fn": 4,
    "int64": 64, "int32": 32, "int16": 16, "int8": 8, "int4": 4,
    "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "bool": 8,
}  # fmt: skip
_CUTLASS = {
    "float64": "Float64", "float32": "Float32", "tfloat32": "TFloat32", "float16": "Float16", "bfloat16": "BFloat16",
    "float8_e4m3fn": "Float8E4M3FN", "float8_e5m2": "Float8E5M2", "float8_e8m0fnu": "Float8E8M0FNU",
    "float4_e2m1fn": "Float4E2M1FN",
    "int64": "Int64", "int32": "Int32", "int16": "Int16", "int8": "Int8", "int4": "Int4",
    "uint64": "Uint64", "uint32": "Uint32", "uint16": "Uint16", "uint8": "Uint8", "bool": "Boolean",
}  # fmt: skip
_TORCH_NAMES = {"float4_e2m1fn": "float4_e2m1fn_x2"}
_NOT_IN_TORCH = ("tfloat32", "int4")
CUTLASS_NAMES = {cutlass: name for name, cutlass in _CUTLASS.items()}


def bits(name: str) -> int:
    """How many bits an element takes in memory.

    >>> bits("bf16"), bits("float4_e2m1fn")
    (16, 4)
    """
    return _BITS[dtype_name(name)]


def to_torch(name: str) -> Any:
    """The ``torch.dtype`` of a dtype name.

    >>> to_torch("bf16")
    torch.bfloat16
    """
    import torch

    canonical = dtype_name(name)
    if canonical in _NOT_IN_TORCH:
        raise ConfigError(f"torch has no dtype for {canonical!r}: give the dtype it is stored as, 'float32' or 'uint8'")
    return getattr(torch, _TORCH_NAMES.get(canonical, canonical))


def to_cutlass(name: str) -> Any:
    """The DSL's numeric class of a dtype name, such as ``cutlass.BFloat16`` for ``bfloat16``."""
    import cutlass

    return getattr(cutlass, _CUTLASS[dtype_name(name)])


def is_torch(value: object) -> bool:
    """Whether a value is a ``torch.dtype``; torch need not be installed.

    >>> is_torch("bfloat16")
    False
    """
    return _is_torch_dtype(type(value))


def is_torch_hint(hint: object) -> bool:
    """Whether a type hint is ``torch.dtype`` itself."""
    return isinstance(hint, type) and _is_torch_dtype(hint)


def _is_torch_dtype(cls: type) -> bool:
    return cls.__module__ == "torch" and cls.__name__ == "dtype"


def is_cutlass(value: object) -> bool:
    """Whether a value is one of the DSL's numeric classes, or their base; the DSL need not be installed.

    >>> is_cutlass(float)
    False
    """
    return isinstance(value, type) and any(
        base.__name__ == "Numeric" and base.__module__.partition(".")[0] == "cutlass" for base in value.__mro__
    )


def name_of(value: object) -> str:
    """The canonical name of a dtype in any of its forms, the DSL's classes among them.

    >>> name_of("half")
    'float16'
    """
    if is_cutlass(value):
        cls = getattr(value, "__name__", "")
        if cls in CUTLASS_NAMES:
            return CUTLASS_NAMES[cls]
        raise ConfigError(f"{cls} of the DSL is not a dtype of a tensor: use one of {', '.join(sorted(CUTLASS_NAMES))}")
    return dtype_name(value)
