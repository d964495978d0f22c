"""Arguments of an emulated call: tensors of the CPU, packed as if they were where the signature expects them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import c_int64, c_void_p
from typing import Any

from precast.kernels.authoring.composition import Multicast, Window
from precast.loader.contract.abi.dlpack import DEVICES, ManagedTensor, Tensor, dtype_code
from precast.loader.contract.abi.tvm_ffi_abi import (
    ARRAY,
    POINTER,
    TENSOR,
    TENSOR_OBJECT,
    AnyValue,
    Text,
    number_value,
    pointer_value,
    take_error,
)
from precast.loader.contract.format.program.call_leaves import DrawnTensor
from precast.loader.contract.format.signature import Argument

_PAIR = "_x2"  # torch writes two elements of 4 bits in a byte so, DLPack without the underscore


class CallError(Exception):
    """A call that the host code, or TVM-FFI itself, refuses."""


class Packer:
    """Packs the arguments of one call. What they point to lives as long as this."""

    def __init__(self, ffi: ctypes.CDLL) -> None:
        self._ffi = ffi
        self._kept: list[Any] = []
        self._objects: list[AnyValue] = []

    def __enter__(self) -> Packer:
        return self

    def __exit__(self, *_: object) -> None:
        for value in self._objects:
            self._ffi.TVMFFIObjectDecRef(c_void_p(value.pointer))

    def value(self, argument: Argument, value: Any) -> AnyValue:
        """One argument as host code takes it."""
        if hasattr(value, "data_ptr"):
            if argument.kind == "pointer" or (argument.kind == "scalar" and isinstance(value, Multicast)):
                return number_value(int(value.data_ptr()))
            return pointer_value(TENSOR, ctypes.addressof(self._tensor(argument, value)))
        return self._plain(argument, value)

    def _plain(self, argument: Argument, value: Any) -> AnyValue:
        if value is None:
            return AnyValue()
        if argument.kind == "stream":
            return pointer_value(POINTER, int(value))
        if isinstance(value, (tuple, list)):
            return self._array(argument, value)
        for kind in ("int", "float"):
            if hasattr(value, f"__tvm_ffi_{kind}__"):
                value = getattr(value, f"__tvm_ffi_{kind}__")()
        return number_value(value)

    def _array(self, argument: Argument, values: Sequence[Any]) -> AnyValue:
        """A tuple, made by TVM-FFI's own function."""
        members = argument.members or (argument,) * len(values)
        packed = (AnyValue * max(1, len(values)))(*map(self._member, members, values))
        array = AnyValue()
        name = Text(data=b"ffi.Array", size=9)
        function = c_void_p()
        if self._ffi.TVMFFIFunctionGetGlobal(ctypes.byref(name), ctypes.byref(function)):
            raise CallError(": ".join(take_error(self._ffi)))
        status = self._ffi.TVMFFIFunctionCall(function, packed, len(values), ctypes.byref(array))
        self._ffi.TVMFFIObjectDecRef(function)
        if status or array.kind != ARRAY:
            raise CallError(": ".join(take_error(self._ffi)))
        self._objects.append(array)
        return array

    def _member(self, argument: Argument, value: Any) -> AnyValue:
        """A member of a tuple: a tensor is an object there, since an array may outlive the call."""
        if argument.kind == "pointer" or not hasattr(value, "data_ptr"):
            return self.value(argument, value)
        managed = ManagedTensor(tensor=self._tensor(argument, value))
        handle = c_void_p()
        self._kept.append(managed)
        if self._ffi.TVMFFITensorFromDLPack(ctypes.byref(managed), 0, 0, ctypes.byref(handle)):
            raise CallError(": ".join(take_error(self._ffi)))
        holder = pointer_value(TENSOR_OBJECT, handle.value or 0)
        self._objects.append(holder)
        return holder

    def _tensor(self, argument: Argument, value: Any) -> Tensor:
        rank = value.dim()
        shape, strides = (c_int64 * max(1, rank))(*value.shape), (c_int64 * max(1, rank))(*value.stride())
        device = DEVICES.get(argument.device or "cuda", DEVICES["cuda"])
        tensor = Tensor(value.data_ptr(), device, 0, rank, *dtype_of(value), shape, strides, 0)
        self._kept += [value, shape, strides, tensor]
        return tensor


def dtype_of(tensor: Any) -> tuple[int, int, int]:
    """The dtype of a torch tensor as DLPack has it.

    >>> import torch
    >>> dtype_of(torch.zeros(1, dtype=torch.bfloat16)), dtype_of(torch.zeros(1, dtype=torch.float8_e4m3fn))
    ((4, 16, 1), (10, 8, 1))
    """
    name = dtype_name(tensor)
    code = dtype_code(name)
    if code is None:
        raise CallError(f"a tensor of {name} cannot be passed")
    return code


def dtype_name(tensor: Any) -> str:
    """The name of a torch tensor's dtype, as DLPack writes it.

    >>> import torch
    >>> dtype_name(torch.zeros(1, dtype=torch.float4_e2m1fn_x2))
    'float4_e2m1fnx2'
    """
    name = str(tensor.dtype).removeprefix("torch.")
    return name.removesuffix(_PAIR) + "x2" if name.endswith(_PAIR) else name


def drawn(argument: Argument, value: Any) -> Any:
    """An argument as the expressions of a host program read it."""
    if not hasattr(value, "data_ptr") or argument.kind != "tensor":
        return value
    return DrawnTensor(
        data=int(value.data_ptr()),
        shape=tuple(value.shape),
        strides=tuple(value.stride()),
        dtype=dtype_name(value),
        device=(DEVICES["cuda"], 0),
    )


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors of an argument, which may be a tuple, or an address with its tensor.

    Multicast memory has none: its copies are tensors of their own.
    """
    if isinstance(value, Window):
        yield value.tensor
    elif isinstance(value, Multicast):
        return
    elif hasattr(value, "data_ptr"):
        yield value
    elif hasattr(value, "tensor"):  # an address that keeps its tensor
        yield value.tensor
    elif isinstance(value, (tuple, list)):
        for member in value:
            yield from tensors_in(member)
