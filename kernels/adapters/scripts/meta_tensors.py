"""Tensors without memory: torch's meta tensors, and how they are passed to the DSL's ``from_dlpack``."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from precast.kernels.authoring.errors import SourceError
from precast.loader.contract.abi.dlpack import CUDA, ManagedTensor, Tensor, dtype_code

_STORAGE = 1 << 40  # between the addresses of two storages
_ADDRESS = 1 << 20  # the address of every tensor without memory: aligned for any assumption, and never read


class DlpackTensor:
    """A tensor without memory, exported through DLPack with its shape, strides and type."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack_device__(self) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        managed = _managed(self._tensor)
        _KEPT.append(managed)  # the DSL may read it at any later time
        return new(ctypes.addressof(managed), b"dltensor", None)


_KEPT: list[ManagedTensor] = []


def _managed(tensor: Any) -> ManagedTensor:
    dtype = dtype_code(str(tensor.dtype).removeprefix("torch."))
    if dtype is None:
        raise SourceError(f"a tensor of {tensor.dtype} cannot be exported through DLPack: view it as another type")
    code, bits, lanes = dtype
    numbers = ctypes.c_int64 * max(tensor.dim(), 1)
    handed = Tensor(
        data=_ADDRESS + tensor.storage_offset() * tensor.element_size(),
        device_type=CUDA,
        rank=tensor.dim(),
        code=code,
        bits=bits,
        lanes=lanes,
        shape=numbers(*tensor.shape),
        strides=numbers(*tensor.stride()),
    )
    return ManagedTensor(tensor=handed)


@contextlib.contextmanager
def without_memory() -> Iterator[None]:
    """While the block runs, torch makes tensors without memory, which report that they are on a CUDA device."""
    import torch

    with torch.device("meta"), on("meta"):
        yield


def is_without_memory(value: Any) -> bool:
    """Whether a value is such a tensor."""
    return getattr(value, "is_meta", False) is True


@contextlib.contextmanager
def recorded_addresses() -> Iterator[dict[int, Any]]:
    """While the block runs, the tensors whose addresses are queried, by address.

    A tensor without memory gives an address of its own, aligned for any assumption, which must not be read.
    """
    import torch

    real = torch.Tensor.data_ptr
    addresses: dict[int, Any] = {}
    storages: dict[int, int] = {}

    def data_ptr(tensor: Any) -> int:
        address = 0
        if is_without_memory(tensor):
            number = storages.setdefault(tensor.untyped_storage()._cdata, len(storages) + 1)
            address = number * _STORAGE + tensor.storage_offset() * tensor.element_size()
        else:
            address = int(real(tensor))
        addresses[address] = tensor  # kept, so that no other tensor gets its memory
        return address

    torch.Tensor.data_ptr = data_ptr
    try:
        yield addresses
    finally:
        del torch.Tensor.data_ptr


@contextlib.contextmanager
def dlpack_views() -> Iterator[None]:
    """While the block runs, the DSL's views and pointers keep the tensor that they were made of.

    They may be made of tensors without memory. The tensor is their attribute ``tensor_behind``.
    """
    from cutlass.cute.runtime import _Pointer, _Tensor

    begin, begin_pointer = _Tensor.__init__, _Pointer.__init__

    def remember(view: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
        if is_without_memory(tensor):
            kwargs["enable_tvm_ffi"] = False
            begin(view, DlpackTensor(tensor), *args, **kwargs)
        else:
            begin(view, tensor, *args, **kwargs)
        view.tensor_behind = tensor

    def remember_pointer(pointer: Any, address: Any, *args: Any, **kwargs: Any) -> None:
        begin_pointer(pointer, address, *args, **kwargs)
        pointer.tensor_behind = addresses.get(int(address), address)

    _Tensor.__init__, _Pointer.__init__ = remember, remember_pointer
    try:
        with recorded_addresses() as addresses:
            yield
    finally:
        _Tensor.__init__, _Pointer.__init__ = begin, begin_pointer


def export_without_memory(runtime: Any) -> None:
    """Have ``from_dlpack`` of the DSL's module ``cutlass.cute.runtime`` take tensors without memory, for good."""
    if getattr(runtime, "__file__", None) is None:  # a placeholder
        return
    begin = runtime._Tensor.__init__

    def begin_anywhere(view: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
        if is_without_memory(tensor):
            kwargs["enable_tvm_ffi"] = False  # it would ask the tensor for its memory
            tensor = DlpackTensor(tensor)
        begin(view, tensor, *args, **kwargs)

    runtime._Tensor.__init__ = begin_anywhere


@contextlib.contextmanager
def on(device: Any) -> Iterator[None]:
    """While the block runs, code that requests a CUDA device gets this device, presented as a CUDA device.

    A tensor on another device, as on the CPU where the program requested that, is on that device.

    >>> import torch
    >>> with on("meta"):
    ...     torch.empty(2, device="cuda").device, torch.empty(2).device
    (device(type='cuda', index=0), device(type='cpu'))
    """
    import torch
    from torch.overrides import TorchFunctionMode

    there = torch.device("cuda", 0)
    answers = {torch.Tensor.is_cuda.__get__: True, torch.Tensor.device.__get__: there, torch.Tensor.get_device: 0}
    kind = torch.device(device).type

    def relocated(value: Any) -> Any:
        named = isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda"
        return torch.device(device) if named else value

    class OnDevice(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in answers and args[0].device.type == kind:
                return answers[function]
            if function is torch.Tensor.cuda:
                return args[0].to(device)
            kwargs = {name: relocated(value) for name, value in (kwargs or {}).items()}
            if type(kwargs.get("device")) is int:  # the number of a CUDA device
                kwargs["device"] = torch.device(device)
            return function(*map(relocated, args), **kwargs)

    with contextlib.nullcontext() if kind == "cuda" else OnDevice():
        yield


@contextlib.contextmanager
def own_operators(failed: Callable[[str, Exception], None] | None = None) -> Iterator[None]:
    """While the block runs, operators that Python code defines run as they are on tensors without memory.

    Torch would call what their authors register for such tensors, which makes results and reaches no kernel. They are
    defined by ``torch.library.custom_op``, or by a function that a ``torch.library.Library`` has for CUDA. With
    ``failed``, an operator that raises an error is reported to it, and then what its authors registered is called.
    """
    import torch
    from torch._library.custom_ops import OPDEFS
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    functions: dict[str, Any] = {}
    library: Any = torch.library.Library
    register = library.impl

    def note(self: Any, op: Any, function: Any, dispatch_key: str = "", **more: Any) -> Any:
        if (dispatch_key or self.dispatch_key) == "CUDA" and not more.get("with_keyset"):
            name = op if isinstance(op, str) else op._schema.name
            functions[name if "::" in name else f"{self.ns}::{name}"] = function
        return register(self, op, function, dispatch_key, **more)

    def run(mode: Any, name: str, registered: Any, args: Any, kwargs: Any) -> Any:
        function = OPDEFS[name]._init_fn if name in OPDEFS else functions.get(name)
        if function is not None:
            try:
                with mode:  # operators that this one calls
                    return function(*args, **kwargs)
            except Exception as error:
                if failed is None:
                    raise
                failed(name, error)
                if not getattr(registered, "default", registered)._schema.returns:
                    return None  # it writes to its arguments, and few authors register anything for that
        return registered(*args, **kwargs)

    class AsFunctions(TorchFunctionMode):  # type: ignore[misc]
        """In a dispatch mode no mode of functions holds, so that the operator would make tensors on a GPU."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operators = (torch._ops.OpOverloadPacket, torch._ops.OpOverload)
            if not isinstance(function, operators) or torch.is_grad_enabled():  # autograd comes before an operator
                return function(*args, **(kwargs or {}))
            overload = getattr(function, "default", function)
            return run(self, overload._schema.name, function, args, kwargs or {})

    class OwnOperators(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return run(self, operator._schema.name, operator, args, kwargs or {})

    library.impl = note
    try:
        with OwnOperators(), AsFunctions():
            yield
    finally:
        library.impl = register
