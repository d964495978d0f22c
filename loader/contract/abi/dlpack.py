"""DLPack: a tensor as native code takes it, and the numbers of its dtypes."""

from __future__ import annotations

import ctypes
import re

CUDA = 2  # kDLCUDA
DEVICES = {"cpu": 1, "cuda": CUDA}
_DTYPE = re.compile(r"(float|bfloat|int|uint|bool)([0-9]{0,3})(_[a-z0-9]+?)?(?:x([0-9]{1,3}))?", re.ASCII)
CODES = {
    "int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6, "_e3m4": 7, "_e4m3": 8, "_e4m3b11fnuz": 9, "_e4m3fn": 10,
    "_e4m3fnuz": 11, "_e5m2": 12, "_e5m2fnuz": 13, "_e8m0fnu": 14, "_e2m3fn": 15, "_e3m2fn": 16, "_e2m1fn": 17,
}  # fmt: skip


class Tensor(ctypes.Structure):
    """``DLTensor`` of ``<dlpack/dlpack.h>``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class ManagedTensor(ctypes.Structure):
    """``DLManagedTensor``, which a capsule holds."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


def compact(shape: list[int]) -> list[int]:
    """The strides of a row-major tensor.

    >>> compact([2, 3, 4])
    [12, 4, 1]
    """
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides[: len(shape)]


def dtype_code(name: str) -> tuple[int, int, int] | None:
    """A dtype as DLPack has it: code, bits, lanes; None for a name that DLPack does not have.

    >>> dtype_code("bfloat16"), dtype_code("float8_e4m3fn"), dtype_code("float4_e2m1fnx2"), dtype_code("bool")
    ((4, 16, 1), (10, 8, 1), (17, 4, 2), (6, 8, 1))
    """
    match = _DTYPE.fullmatch(name)
    code = CODES.get(match[3] or match[1]) if match else None
    if match is None or code is None or not (match[2] or match[1] == "bool"):
        return None
    return code, int(match[2] or 8), int(match[4] or 1)
