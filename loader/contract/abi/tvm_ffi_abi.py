"""The binary interface of TVM-FFI, as ``<tvm/ffi/c_api.h>`` declares it."""

from __future__ import annotations

import ctypes

NONE, INT, BOOL, FLOAT, POINTER, TENSOR = 0, 1, 2, 3, 4, 7  # type indices of values
TENSOR_OBJECT, ARRAY = 70, 71  # those of objects
_INTEGERS = {f"{kind}int{bits}": (kind, bits) for kind in ("", "u") for bits in (8, 16, 32, 64)}
_OBJECT = 24  # the bytes of TVMFFIObject; an error's texts stand behind them


class Text(ctypes.Structure):
    """``TVMFFIByteArray``."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Word(ctypes.Union):
    _fields_ = (("number", ctypes.c_int64), ("real", ctypes.c_double), ("pointer", ctypes.c_void_p))


class AnyValue(ctypes.Structure):
    """``TVMFFIAny``."""

    _anonymous_ = ("word",)
    _fields_ = (("kind", ctypes.c_int32), ("padding", ctypes.c_uint32), ("word", _Word))


def pointer_value(kind: int, address: int) -> AnyValue:
    """A value that is an address.

    >>> pointer_value(POINTER, 64).pointer
    64
    """
    return AnyValue(kind=kind, word=_Word(pointer=address))


def number_value(number: int | float) -> AnyValue:
    """A number of Python, as the value that tvm_ffi makes of it.

    >>> number_value(5).kind == INT, number_value(True).kind == BOOL, number_value(0.5).real
    (True, True, 0.5)
    """
    if isinstance(number, float):
        return AnyValue(kind=FLOAT, word=_Word(real=number))
    return AnyValue(kind=BOOL if isinstance(number, bool) else INT, word=_Word(number=number))


def take_error(ffi: ctypes.CDLL) -> tuple[str, str]:
    """The kind and the message of the error that TVM-FFI holds for this thread, which is cleared; empty without one."""
    error = ctypes.c_void_p()
    ffi.TVMFFIErrorMoveFromRaised(ctypes.byref(error))
    if not error.value:
        return "", ""
    words = ctypes.cast(error.value + _OBJECT, ctypes.POINTER(ctypes.c_size_t))  # a pointer and a length for each text
    kind, message = (ctypes.string_at(words[at], words[at + 1]).decode("utf-8", "replace") for at in (0, 2))
    ffi.TVMFFIObjectDecRef(error)
    return kind, message


def limits(dtype: str) -> tuple[int, int]:
    """The least and the most that an integer type takes of TVM-FFI's 64-bit numbers.

    >>> limits("int8"), limits("bool")
    ((-128, 127), (-128, 127))
    """
    kind, bits = _INTEGERS.get(dtype, ("", 8))
    if kind == "u" and bits < 64:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
