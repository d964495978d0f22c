"""Objects that stand for a number, such as the DSL's ``Int32(5)``: they have a method that tvm_ffi calls to get it."""

from __future__ import annotations

import ctypes
from numbers import Real

NO_NUMBER, AN_INT, A_FLOAT = range(3)
_PLAIN = (Real, str, bytes, bytearray, tuple, list, dict, ctypes.c_void_p)
_OTHERS = (
    "__tvm_ffi_object__", "__dlpack_c_exchange_api__", "__cuda_stream__", "__dlpack__", "__tvm_ffi_opaque_ptr__",
    "__dlpack_data_type__", "__dlpack_device__",
)  # fmt: skip
_OWN_WAYS = frozenset(("tvm_ffi", "torch", "numpy", "cuda"))  # packages whose classes tvm_ffi looks for by name


def number_kind(value: object) -> int:
    """Whether tvm_ffi takes a value for the int or the float that its method gives, as tvm_ffi decides it by the type.

    >>> class Five:
    ...     def __tvm_ffi_int__(self):
    ...         return 5
    >>> number_kind(Five()), number_kind(5)
    (1, 0)
    """
    cls = type(value)
    if isinstance(value, _PLAIN) or callable(value):
        return NO_NUMBER
    if any(base.__module__.partition(".")[0] in _OWN_WAYS for base in cls.__mro__):
        return NO_NUMBER
    if any(hasattr(cls, name) for name in _OTHERS):
        return NO_NUMBER
    if hasattr(cls, "__tvm_ffi_int__"):
        return AN_INT
    return A_FLOAT if hasattr(cls, "__tvm_ffi_float__") else NO_NUMBER
