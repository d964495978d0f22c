"""Tensor specs: the tensors without memory that vLLM's copy of FlashAttention-4 compiles for before there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.attach.recordings.key_reader import find

_INTERFACE = "vllm.vllm_flash_attn.cute.interface"
_CLASS, _MAKER = "_CompileOnlyTensorSpec", "_make_compile_only_tensor_spec"
TENSOR_SPEC = "tensor_spec"


def describe_tensor_spec(value: Any, notes: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]] | None:
    """How to make an equal spec: its sizes, dtype, alignment and strides; None for any other value.

    >>> describe_tensor_spec(128, {}) is None
    True
    """
    kind = type(value)
    if kind.__name__ != _CLASS or kind.__module__ != _INTERFACE:
        return None
    strides = tuple(stride if type(stride) is int else None for stride in value.stride())  # None: any, as in its maker
    return TENSOR_SPEC, (value.shape, value.dtype, value._assumed_align, strides)


def tensor_spec(shape: Sequence[int], dtype: Any, alignment: int, strides: Sequence[int | None]) -> Any:
    """A spec to compile for."""
    return find(f"{_INTERFACE}:{_MAKER}")(shape, dtype, assumed_align=alignment, stride=strides)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """What a spec holds for the compiler, where there is none."""


ANSWERS = {f"cutlass.cute{name}": _nothing for name in (":sym_int", ":sym_int64", ".runtime:make_fake_tensor")}
"""A spec is made before its key is looked up, so making one must not need the DSL."""
