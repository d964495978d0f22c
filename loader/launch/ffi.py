"""TVM-FFI's Python package: imported when it is needed, and how it calls an entry."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

from precast.loader.contract.abi.tvm_ffi_abi import Text
from precast.loader.errors import LaunchError, LoadError
from precast.loader.launch.library import Library, load_ffi
from precast.loader.locks import IMPORT_LOCK

_DISABLE = "TVM_FFI_DISABLE_TORCH_C_DLPACK"


def entry(library: Library, symbol: str) -> Callable[..., Any]:
    """The entry of a library as a Python function; it keeps the library alive."""
    return function_at(library.address(symbol), library)


def function_at(address: int, library: Library | None = None) -> Callable[..., Any]:
    """The TVM-FFI entry at an address, as tvm_ffi calls it; it keeps a library alive."""
    function: Callable[..., Any] = import_tvm_ffi().Function.__from_extern_c__(address, keep_alive_object=library)
    return function


def program_function(entry: int, program: int) -> Callable[..., Any]:
    """A host program as tvm_ffi calls it, whose entry gets the program for itself; both live for good.

    tvm_ffi makes Python functions of its own only, and of those that are registered.
    """
    tvm_ffi, ffi, handle = import_tvm_ffi(), load_ffi(), ctypes.c_void_p()
    name = f"precast.host_program.{program:x}".encode()
    text = Text(data=name, size=len(name))
    failed = ffi.TVMFFIFunctionCreate(ctypes.c_void_p(program), ctypes.c_void_p(entry), None, ctypes.byref(handle))
    if failed or ffi.TVMFFIFunctionSetGlobal(ctypes.byref(text), handle, 1):
        raise LoadError("TVM-FFI takes no function for a host program: free some memory")
    ffi.TVMFFIObjectDecRef(handle)
    tvm_ffi.error.register_error(LaunchError.__name__, LaunchError)  # what a host program raises by that name
    function: Callable[..., Any] = tvm_ffi.get_global_func(name.decode())
    return function


def import_tvm_ffi() -> Any:
    """Import tvm_ffi, which loads torch where that is installed.

    Where torch has its own DLPack exchange, tvm_ffi is kept from looking for an add-on with the same service: that
    search checks whether CUDA is available, and takes a fifth of a second where CUDA is not up yet.
    """
    with IMPORT_LOCK:
        if "tvm_ffi" in sys.modules:
            return sys.modules["tvm_ffi"]
        before = os.environ.get(_DISABLE)
        if before is None and _torch_exchanges():
            os.environ[_DISABLE] = "1"
        try:
            import tvm_ffi
        except ImportError as error:
            raise LoadError(f"tvm_ffi cannot be imported ({error}): pip install apache-tvm-ffi") from error
        finally:
            if before is None:
                os.environ.pop(_DISABLE, None)
    return tvm_ffi


def _torch_exchanges() -> bool:
    """Whether torch, which tvm_ffi would import anyway, needs no add-on for tensors and streams."""
    try:
        import torch
    except ImportError:
        return False
    return hasattr(torch.Tensor, "__dlpack_c_exchange_api__") and hasattr(torch.cuda.Stream, "__cuda_stream__")
