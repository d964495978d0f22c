"""Arguments in the DSL's own convention, for kernels that a library compiles without TVM-FFI.

Such a library passes the DSL's views of tensors, pointers, streams and numbers to what it compiled. The builder has
compiled the same for TVM-FFI, so the kernel of a cache takes tensors, addresses and plain numbers. Nothing of the
DSL is imported here: its values are recognised by their attributes.

=========  ==============================================================================================
a tensor   a view that ``from_dlpack`` made, or any tensor with DLPack
a pointer  what ``make_ptr`` made, a pointer of ``ctypes``, or an address
a stream   a ``CUstream``, a stream of torch or of ``cuda.core``, or its handle
a number   a number of Python or of the DSL
a tuple    a tuple, a named tuple, a list or a dataclass of these
=========  ==============================================================================================

Static arguments (``Constexpr``) are not arguments of the compiled object in either convention.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from precast.attach.compiler.host_values import TensorView
from precast.loader.contract.abi.dlpack import ManagedTensor
from precast.loader.contract.format.signature import Argument
from precast.loader.errors import FormatError
from precast.loader.launch.kernel import Kernel

_NUMBERS = (int, float)  # bool is an int
_HINT = "record the call again with the library and the DSL that are installed"


class NativeKernel:
    """A kernel that is called as the DSL's own compiled object is: see the module's table.

    Parameters
    ----------
    kernel
        The kernel of a cache.
    defaults
        The values of arguments that a call leaves out, by name.
    """

    def __init__(self, kernel: Kernel, defaults: Mapping[str, Any]) -> None:
        arguments = kernel.signature.passed
        if len(arguments) != len(kernel.signature.arguments):
            raise FormatError(
                f"{kernel.op} takes the current stream of TVM-FFI, but its library passes a stream: {_HINT}"
            )
        self.kernel, self.__doc__, self.__name__ = kernel, kernel.__doc__, kernel.op
        self._defaults = dict(defaults)
        self._names = [argument.name for argument in arguments]
        self._plain = [_converter(argument) for argument in arguments]

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch, on the stream that is among the arguments."""
        if named or len(args) != len(self._plain):
            args = self._ordered(args, named)
        return self.kernel(*[plain(value) for plain, value in zip(self._plain, args, strict=True)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)

    def __repr__(self) -> str:
        return repr(self.kernel)

    def _ordered(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        if len(args) > len(self._names):
            raise TypeError(f"{self.kernel.op}() takes {len(self._names)} arguments, but {len(args)} were given")
        remaining = self._names[len(args) :]
        wrong = [name for name in named if name not in remaining]
        values = {**self._defaults, **named}
        missing = [name for name in remaining if name not in values]
        if wrong or missing:
            what = f"cannot take {', '.join(wrong)}" if wrong else f"misses {', '.join(missing)}"
            raise TypeError(f"{self.kernel.op}() {what}: it takes {', '.join(self._names)}")
        return (*args, *(values[name] for name in remaining))


def _converter(argument: Argument) -> Callable[[Any], Any]:
    """The function that converts a value of an argument to what the kernel takes."""
    if argument.kind == "tuple":
        inner = [_converter(member) for member in argument.members]
        return lambda value: tuple(plain(item) for plain, item in zip(inner, _items(argument, value), strict=True))
    if argument.kind == "shape":
        return lambda value: tuple(_number(argument, item) for item in _items(argument, value))
    kinds = {"tensor": _tensor, "pointer": _address, "stream": _stream, "scalar": _number}
    convert = kinds.get(argument.kind)
    return (lambda value: value) if convert is None else lambda value: convert(argument, value)


def _items(argument: Argument, value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    count = len(argument.members or argument.shape)
    if not isinstance(value, (tuple, list)) or len(value) != count:
        raise _wrong(argument, value, f"a tuple of {count}")
    return value


def _number(argument: Argument, value: Any) -> Any:
    if isinstance(value, _NUMBERS):
        return value
    held = getattr(value, "value", None)  # of the DSL's Int32, Float32, Boolean, ...
    if isinstance(held, _NUMBERS):
        return held
    raise _wrong(argument, value, "a number")


def _address(argument: Argument, value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    kind = type(value)
    if hasattr(kind, "__tvm_ffi_opaque_ptr__"):
        return int(value.__tvm_ffi_opaque_ptr__())
    if isinstance(value, (ctypes._Pointer, ctypes.c_void_p)):
        return ctypes.cast(value, ctypes.c_void_p).value or 0
    if hasattr(kind, "__c_pointers__"):  # a library's own pointer: where the address is stored
        return ctypes.c_void_p.from_address(value.__c_pointers__()[0]).value or 0
    raise _wrong(argument, value, "a pointer")


def _stream(argument: Argument, value: Any) -> int:
    if value is None:
        return 0
    if hasattr(type(value), "__cuda_stream__"):
        return int(value.__cuda_stream__()[1])
    try:
        return int(getattr(value, "cuda_stream", value))
    except (TypeError, ValueError):
        raise _wrong(argument, value, "a stream") from None


def _tensor(argument: Argument, value: Any) -> Any:
    if isinstance(value, TensorView):
        return value.tensor
    kind = type(value)
    if hasattr(kind, "load_dltensor"):  # the DSL's view; its class claims to be another type
        held = getattr(value, "_tvm_ffi_tensor", None)
        return _Exported(argument, value) if held is None else held
    if hasattr(kind, "__dlpack__") or hasattr(kind, "__tvm_ffi_object__"):
        return value
    raise _wrong(argument, value, "a tensor")


def _wrong(argument: Argument, value: object, expected: str) -> TypeError:
    kind = type(value)
    return TypeError(f"{argument.name} is a {kind.__module__}.{kind.__qualname__}: expected {expected}")


_api = ctypes.PyDLL(None)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_CAPSULE = b"dltensor"


class _Exported:
    """The tensor under a view of the DSL, for the duration of a call. The view stays its owner."""

    def __init__(self, argument: Argument, view: Any) -> None:
        try:
            address = _api.PyCapsule_GetPointer(view._dlpack_data, _CAPSULE)
        except (AttributeError, ValueError):
            raise _wrong(
                argument, view, f"a view that this version of the DSL keeps as a DLPack capsule; {_HINT}"
            ) from None
        self._view = view
        self._managed = ManagedTensor(tensor=ManagedTensor.from_address(address).tensor)

    def __dlpack__(self, **options: Any) -> Any:
        return _api.PyCapsule_New(ctypes.addressof(self._managed), _CAPSULE, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._managed.tensor.device_type, self._managed.tensor.device
