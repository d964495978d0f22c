"""precast.h by ctypes: for tests that call libprecast in this process."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.loader.contract.abi.dlpack import dtype_code
from tests.helpers.caches import ffi_folder
from tests.helpers.native.libprecast import ERRORS

NONE, INT, BOOL, FLOAT, POINTER, TENSOR, TUPLE = range(7)
LAUNCH_ERROR = 9


class Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("sha256", ctypes.c_char_p), ("tvm_ffi", ctypes.c_char_p), ("cuda", ctypes.c_char_p),
    )  # fmt: skip


class Request(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("op", ctypes.c_char_p), ("config", ctypes.c_char_p), ("problem", ctypes.c_char_p),
        ("target", ctypes.c_char_p), ("device", ctypes.c_int32),
    )  # fmt: skip


class _Content(ctypes.Union):
    _fields_ = (("integer", ctypes.c_int64), ("real", ctypes.c_double), ("pointer", ctypes.c_void_p))


class Value(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("count", ctypes.c_int32), ("content", _Content))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )  # fmt: skip


class CallFailed(Exception):
    """A call failed; its first argument is the status."""


class Vector:
    """Floats in this process's memory, as a tensor."""

    def __init__(self, *numbers: float, strides: bool = True) -> None:
        self.data = (ctypes.c_float * max(1, len(numbers)))(*numbers)
        self.sizes, self.steps = (ctypes.c_int64 * 1)(len(numbers)), (ctypes.c_int64 * 1)(1)
        self.tensor = DLTensor(
            data=ctypes.addressof(self.data), device_type=1, rank=1, code=2, bits=32, lanes=1, shape=self.sizes
        )
        if strides:
            self.tensor.strides = self.steps

    def value(self) -> Value:
        return Value(kind=TENSOR, content=_Content(pointer=ctypes.addressof(self.tensor)))

    def __iter__(self) -> Any:
        return iter(self.data)


def tensor(of: Any) -> Value:
    """A tensor of torch; the value keeps it."""
    dtype = dtype_code(str(of.dtype).removeprefix("torch."))
    assert dtype is not None
    rank, (code, bits, lanes) = of.dim(), dtype
    shape, strides = (ctypes.c_int64 * rank)(*of.shape), (ctypes.c_int64 * rank)(*of.stride())
    kind, device = (2, of.device.index) if of.is_cuda else (1, 0)
    view = DLTensor(of.data_ptr(), kind, device, rank, code, bits, lanes, shape, strides)
    made = Value(kind=TENSOR, content=_Content(pointer=ctypes.addressof(view)))
    made.kept = (of, view, shape, strides)
    return made


def value_of(argument: Any) -> Value:
    """A tensor of torch, a number, or None."""
    if isinstance(argument, float):
        return real(argument)
    if isinstance(argument, int):
        return integer(argument, kind=BOOL if isinstance(argument, bool) else INT)
    return integer(0, kind=NONE) if argument is None else tensor(argument)


def integer(number: int, kind: int = INT) -> Value:
    return Value(kind=kind, content=_Content(integer=number))


def real(number: float) -> Value:
    return Value(kind=FLOAT, content=_Content(real=number))


def several(*members: Value) -> Value:
    """A tuple; it keeps its members."""
    array = (Value * max(1, len(members)))(*members)
    made = Value(kind=TUPLE, count=len(members), content=_Content(pointer=ctypes.addressof(array)))
    made.kept = (array, members)
    return made


class Library:
    """The functions of the library; each failure is an exception."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        for name in ("close", "release", "free"):
            function = getattr(self.c, f"precast_{name}")
            function.argtypes, function.restype = [ctypes.c_void_p], None
        for name in ("key", "config", "signature", "target"):
            function = getattr(self.c, f"precast_{name}")
            function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_char_p

    def open(self, folder: Path | str, **more: Any) -> ctypes.c_void_p:
        table, error = ctypes.c_void_p(), ctypes.c_void_p()
        ffi = str(ffi_folder() / "lib" / "libtvm_ffi.so").encode()
        named = {name: str(value).encode() for name, value in more.items()}
        options = Options(**{"size": ctypes.sizeof(Options), "tvm_ffi": ffi, **named})
        status = self.c.precast_open(
            str(folder).encode(), ctypes.byref(options), ctypes.byref(table), ctypes.byref(error)
        )
        self.check(status, error)
        return table

    def get(
        self,
        table: ctypes.c_void_p,
        op: str | None = "scale",
        config: Mapping[str, Any] | bytes | None = None,
        **more: Any,
    ) -> ctypes.c_void_p:
        kernel, error = ctypes.c_void_p(), ctypes.c_void_p()
        text = config if isinstance(config, bytes) else json.dumps(config or {}).encode()
        named = {"size": ctypes.sizeof(Request), "op": op.encode() if op else None, "config": text}
        request = Request(**{**named, **more})
        status = self.c.precast_get(table, ctypes.byref(request), ctypes.byref(kernel), ctypes.byref(error))
        self.check(status, error)
        return kernel

    def call(self, kernel: ctypes.c_void_p, *values: Value, stream: int = 0) -> None:
        error = ctypes.c_void_p()
        array = (Value * max(1, len(values)))(*values)
        count, on = ctypes.c_size_t(len(values)), ctypes.c_void_p(stream)
        self.check(self.c.precast_call(kernel, array, count, on, ctypes.byref(error)), error)

    def check(self, status: int, error: ctypes.c_void_p) -> None:
        """Raise what the Python loader would raise."""
        if status == 0:
            assert not error.value
            return
        text = ctypes.string_at(error.value or 0).decode("utf-8", "backslashreplace")
        self.c.precast_free(error)
        if status in ERRORS:
            raise ERRORS[status](text)
        raise CallFailed(status, text)
