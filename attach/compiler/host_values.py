"""Stand-ins for what host code makes of its tensors and addresses with the DSL, where the DSL is not installed.

A library that compiles without TVM-FFI wraps each argument of a call: ``from_dlpack(x).mark_layout_dynamic()``,
``make_ptr(dtype, x.data_ptr(), ...)``. A kernel of a cache needs the tensor and the address of these. Options of the
compiler, which modules make while they are imported, are parts of keys. Everything else needs the DSL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from precast.attach.compiler.device_constants import WARP_SIZE, shared_memory_of
from precast.attach.compiler.placeholder import NoCompiler
from precast.attach.recordings.provenance import DSL_DISTRIBUTION


class TensorView:
    """A tensor in place of the DSL's view of it. Its layout became a part of the kernel when that was built.

    >>> view = from_dlpack([1, 2], assumed_align=16).mark_layout_dynamic(leading_dim=1)
    >>> view.tensor
    [1, 2]
    """

    element_type: Any = None

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def mark_layout_dynamic(self, leading_dim: int | None = None) -> TensorView:
        """The view itself: the layout is a fact of the kernel."""
        return self

    def mark_compact_shape_dynamic(self, *args: Any, **kwargs: Any) -> TensorView:
        """The view itself: the shape is a fact of the kernel."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoCompiler(f"the attribute {name} of a tensor's view needs the DSL: pip install {DSL_DISTRIBUTION}")


class Address:
    """An address in place of the DSL's pointer, with its type, memory space and alignment.

    >>> make_ptr(None, 64, assumed_align=16).__tvm_ffi_opaque_ptr__()
    64
    """

    def __init__(self, address: int, dtype: Any, memory: Any, alignment: int) -> None:
        self.dtype, self.memspace, self.alignment = dtype, memory, alignment
        self._pointer = address

    def __tvm_ffi_opaque_ptr__(self) -> int:
        return self._pointer


def from_dlpack(tensor: Any, *args: Any, **kwargs: Any) -> TensorView:
    """Stands in for the DSL's function: a tensor as an argument of a kernel."""
    return TensorView(tensor)


def make_ptr(dtype: Any, value: Any, mem_space: Any = None, assumed_align: int | None = None) -> Address:
    """Stands in for the DSL's function: an address as an argument of a kernel. It must have the stated alignment."""
    address = value if isinstance(value, int) else ctypes.cast(value, ctypes.c_void_p).value or 0
    alignment = max(getattr(dtype, "width", 8) // 8, 1) if assumed_align is None else assumed_align
    if address % alignment:
        raise ValueError(f"the address {address:#x} is not aligned to {alignment} bytes: pass one that is")
    return Address(address, dtype, mem_space, alignment)


def compile_option(name: str) -> type:
    """Stands in for an option of the compiler: it holds a value, as a part of a key.

    >>> option = compile_option("GPUArch")("sm_90a")
    >>> option.value, type(option).__module__, type(option).__name__
    ('sm_90a', 'cutlass.cute', 'GPUArch')
    """

    def __init__(self: Any, value: Any = True) -> None:
        self.value = value

    return type(name, (), {"__init__": __init__, "__module__": "cutlass.cute"})


OPTIONS = (
    "DeviceTarget", "DisableCuteExtCompile", "EnableAssertions", "EnableTVMFFI", "FrontendNext", "GPUArch",
    "GenerateLineInfo", "KeepCUBIN", "KeepPTX", "KeepSASS", "LinkLibraries", "NvdisasmOptions", "OptLevel",
    "PtxasOptions", "RDC", "RemarkFilter", "RemarkOutput",
)  # fmt: skip
"""The options that ``cutlass.cute`` has."""
ANSWERS: Mapping[str, Any] = {
    **{f"cutlass.cute:{name}": compile_option(name) for name in OPTIONS},
    "cutlass.cute.runtime:from_dlpack": from_dlpack,
    "cutlass.cute.runtime:make_ptr": make_ptr,
    "cutlass.cute.arch:WARP_SIZE": WARP_SIZE,
    "cutlass.utils:get_smem_capacity_in_bytes": shared_memory_of,
}
"""The functions and numbers of the DSL to replace, for every library."""
