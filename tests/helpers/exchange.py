"""A tensor type of our own with DLPack's C exchange: tensors on any device, and their streams, without a device."""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    PYFUNCTYPE,
    Structure,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any

CPU, CUDA = 1, 2


class Tensor(Structure):
    """DLTensor."""

    _fields_ = (
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )  # fmt: skip


class Managed(Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
        ("tensor", Tensor),
    )  # fmt: skip


Own = PYFUNCTYPE(c_int, py_object, POINTER(POINTER(Managed)))
View = PYFUNCTYPE(c_int, py_object, POINTER(Tensor))
Stream = PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))


class Exchange(Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("major", c_uint32), ("minor", c_uint32), ("older", c_void_p), ("allocate", c_void_p), ("own", Own),
        ("make", c_void_p), ("view", View), ("stream", Stream),
    )  # fmt: skip


class Fake:
    """A tensor at an address, on any device, whose memory is never touched. It counts how often it was asked for."""

    __dlpack_c_exchange_api__: Any
    streams: tuple[int, ...] = ()
    refuses = False

    def __init__(self, address: int, shape: tuple[int, ...], device: tuple[int, int] = (CUDA, 0), *, code: int = 2,
                 bits: int = 32, strides: tuple[int, ...] | None = None) -> None:  # fmt: skip
        if strides is None:
            strides = tuple(_product(shape[i + 1 :]) for i in range(len(shape)))
        self._shape, self._strides = ((c_int64 * max(1, len(n)))(*n) for n in (shape, strides))
        self.tensor = Tensor(address, *device, len(shape), code, bits, 1, self._shape, self._strides, 0)
        self._managed = Managed(1, 3, None, None, 0, self.tensor)


def _product(numbers: tuple[int, ...]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def _own(fake: Fake, out: Any) -> int:
    out[0] = ctypes.pointer(fake._managed)
    return 0


def _view(fake: Fake, out: Any) -> int:
    out[0] = fake.tensor
    return 0


def _stream(device_type: int, device_id: int, out: Any) -> int:
    out[0] = 0x1000 * device_type + device_id
    return 0


_OWN, _VIEW, _STREAM = Own(_own), View(_view), Stream(_stream)


def exchange(major: int = 1, older: int = 0, view: Any = _VIEW) -> Any:
    """A table of functions, and the capsule that a type carries."""
    table = Exchange(major, 3, older, None, _OWN, None, view, _STREAM)
    _kept.append(table)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = py_object, (c_void_p, ctypes.c_char_p, c_void_p)
    return table, capsule(ctypes.addressof(table), _NAME, None)


_NAME = b"dlpack_exchange_api"  # a capsule keeps the address of its name
_kept: list[Any] = []
Fake.__dlpack_c_exchange_api__ = exchange()[1]


class Meta(type):
    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(name) if not name.startswith("__dlpack_c") else ZeroDivisionError("metaclass")


class Spiteful(metaclass=Meta):
    """An object whose type raises when it is asked for an exchange."""
