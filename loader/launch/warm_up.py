"""Warm-up: load a kernel's device code and set its attributes, as its first launch would, without a launch.

A compiled entry does this at its first call, just before it launches. So it is called once, with placeholder arguments
that its signature allows, on a new stream that *captures*: CUDA then does everything up to the launch, and records the
launch in a graph, which is discarded. Nothing is executed and no memory is touched.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from precast.loader.contract.abi.dlpack import CUDA, Tensor, compact, dtype_code
from precast.loader.contract.abi.tvm_ffi_abi import (
    ARRAY,
    NONE,
    POINTER,
    TENSOR,
    AnyValue,
    Text,
    number_value,
    pointer_value,
)
from precast.loader.contract.format.signature import Argument, Dim, Signature
from precast.loader.errors import PrecastError
from precast.loader.launch.call_errors import raised
from precast.loader.launch.library import load_ffi
from precast.loader.machine.driver import Driver

ADDRESS = 1 << 30  # no memory is there; aligned for every type
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: loading a module is allowed during the capture
_NON_BLOCKING = 1
_SIZE = 128


class NotWarmedUp(PrecastError):
    """A kernel could not be warmed up without a real call; the message is the reason."""

    code = "PCL14"


def warm_up(address: int, signature: Signature, driver: Driver, ordinal: int) -> None:
    """Do all that the first launch of an entry would do on a device, and do not launch.

    Parameters
    ----------
    address
        The address of the entry.
    signature
        What it takes.
    driver, ordinal
        The driver and the number of a device.
    """
    refuse_streamless(signature)
    with _capturing(driver, ordinal) as stream:
        arguments = Arguments(signature, ordinal, stream)
        old = ctypes.c_void_p()
        ffi = load_ffi()
        set_stream = ffi.TVMFFIEnvSetStream
        set_stream.argtypes = [ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p]
        set_stream(CUDA, ordinal, stream, ctypes.byref(old))
        try:
            call(address, arguments.values)
        finally:
            set_stream(CUDA, ordinal, old, None)


def refuse_streamless(signature: Signature) -> None:
    """Refuse a kernel that takes no stream: it launches on the default one, which is not captured, so it would run.

    >>> from precast.loader.contract.format.signature import Argument
    >>> refuse_streamless(Signature(arguments=(Argument(name="stream", kind="env_stream"),)))
    """
    if not any(argument.kind in ("env_stream", "stream") for argument in signature.arguments):
        raise NotWarmedUp("it takes no stream, so a warm-up would launch it: call it once with real arguments")


def call(address: int, values: list[AnyValue]) -> None:
    """Call an entry by C alone; NotWarmedUp with its error where it fails."""
    entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)(address)
    result = AnyValue()
    packed = (AnyValue * max(1, len(values)))(*values)
    if entry(None, packed, len(values), ctypes.byref(result)) != 0:
        raise NotWarmedUp(f"a call with placeholder arguments was refused ({raised()}): call it once with real ones")


class Arguments:
    """Placeholder arguments that a signature allows: free sizes are small, pointers aligned, their memory unmapped."""

    def __init__(self, signature: Signature, ordinal: int, stream: int) -> None:
        self._sizes = {n: _multiple(s.divisibility) for n, s in signature.symbols.items()}
        self._ordinal, self._stream = ordinal, stream
        self._kept: list[Any] = []
        self.values = [self._value(argument) for argument in signature.passed]

    def _value(self, argument: Argument) -> AnyValue:
        kind = argument.kind
        if kind == "tensor":
            return pointer_value(TENSOR, ctypes.addressof(self._tensor(argument)))
        if kind == "scalar":
            if argument.dtype.startswith(("float", "bfloat")):
                return number_value(1.0)
            return number_value(0 if argument.dtype == "bool" else _multiple(argument.divisibility))
        if kind in ("pointer", "stream"):
            return pointer_value(POINTER, self._stream if kind == "stream" else ADDRESS)
        if kind == "none":
            return AnyValue(kind=NONE)
        if kind == "tuple":
            array = _Array([self._value(member) for member in argument.members])
            self._kept.append(array)
            return array.value
        if kind == "const" and isinstance(argument.value, (int, float)):
            real = isinstance(argument.value, float)
            return number_value(argument.value if real else int(argument.value))
        raise NotWarmedUp(
            f"an argument of kind {kind!r} ({argument.name}) has no placeholder: call it once with a real one"
        )

    def _tensor(self, argument: Argument) -> Tensor:
        shape = [self._size(d) for d in argument.shape]
        strides = compact(shape) if argument.strides is None else [self._size(s) for s in argument.strides]
        arrays = [(ctypes.c_int64 * max(1, len(shape)))(*numbers) for numbers in (shape, strides)]
        dtype = dtype_code(argument.dtype)
        if dtype is None:
            raise NotWarmedUp(
                f"{argument.dtype!r} is a dtype without a placeholder: call the kernel once with real arguments"
            )
        code, bits, lanes = dtype
        device_type = {"cpu": 1, "cuda_host": 3}.get(argument.device, CUDA)
        tensor = Tensor(
            data=ADDRESS,
            device_type=device_type,
            device=self._ordinal if device_type == CUDA else 0,
            rank=len(shape),
            code=code,
            bits=bits,
            lanes=lanes,
            shape=ctypes.cast(arrays[0], ctypes.POINTER(ctypes.c_int64)),
            strides=ctypes.cast(arrays[1], ctypes.POINTER(ctypes.c_int64)),
        )
        self._kept += [*arrays, tensor]
        return tensor

    def _size(self, dim: Dim) -> int:
        return dim if isinstance(dim, int) else self._sizes.get(dim, _SIZE)


class _Array:
    """The array that tvm_ffi makes of a tuple, made by C alone; it lives as long as this object."""

    def __init__(self, members: list[AnyValue]) -> None:
        self._ffi, make, self.value = load_ffi(), ctypes.c_void_p(), AnyValue()
        if self._ffi.TVMFFIFunctionGetGlobal(ctypes.byref(Text(data=b"ffi.Array", size=9)), ctypes.byref(make)) == 0:
            packed = (AnyValue * max(1, len(members)))(*members)
            status = self._ffi.TVMFFIFunctionCall(make, packed, len(members), ctypes.byref(self.value))
            self._ffi.TVMFFIObjectDecRef(make)
            if status == 0:
                return
        raise NotWarmedUp(f"a tuple could not be made ({raised()}): call the kernel once with a real one")

    def __del__(self) -> None:
        if self.value.kind == ARRAY:
            self._ffi.TVMFFIObjectDecRef(ctypes.c_void_p(self.value.pointer))


def _multiple(divisibility: int) -> int:
    """The least multiple that is at least ``_SIZE``."""
    step = max(1, divisibility)
    return math.ceil(_SIZE / step) * step


@contextmanager
def _capturing(driver: Driver, ordinal: int) -> Iterator[int]:
    """A new stream of a device, which records launches in a graph and runs none."""
    with device_context(driver, ordinal) as ask:
        stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
        ask("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        try:
            ask("cuStreamBeginCapture_v2", stream, _RELAXED)
            try:
                yield int(stream.value or 0)
            finally:
                ended = ask("cuStreamEndCapture", stream, ctypes.byref(graph), check=False)
                if ended == 0 and graph:
                    ask("cuGraphDestroy", graph, check=False)
        finally:
            ask("cuStreamDestroy_v2", stream, check=False)


@contextmanager
def device_context(driver: Driver, ordinal: int) -> Iterator[Any]:
    """Make the primary context of a device current for a while. It is not released: every launch needs it."""
    library, handle, context = driver.library, driver.handle(ordinal), ctypes.c_void_p()

    def ask(function: str, *arguments: object, check: bool = True) -> int:
        code = int(getattr(library, function)(*arguments))
        if code and check:
            raise NotWarmedUp(f"{function} returned error {code}: run 'precast doctor'")
        return code

    ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    ask("cuCtxPushCurrent_v2", context)
    try:
        yield ask
    finally:
        ask("cuCtxPopCurrent_v2", ctypes.byref(context), check=False)
