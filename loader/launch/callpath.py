"""The call path: native code that calls kernels without the Python package tvm_ffi.

It is the extension module ``precast.loader.native._callpath``, which some wheels of precast-loader hold. It serves
CPython 3.10 and newer. Without it objects are called through tvm_ffi.
"""

from __future__ import annotations

import os
import sys

from precast.loader.errors import LoadError
from precast.loader.launch.library import load_ffi
from precast.loader.locks import IMPORT_LOCK

VARIABLE = "PRECAST_FASTCALL"
_SKIPS = "TVM_FFI_SKIP_DLPACK_C_EXCHANGE_API"  # tvm_ffi honours it, so this replacement of tvm_ffi does, too


def missing() -> str | None:
    """Why there is no call path in this process, or None. It is imported here, since it needs libtvm_ffi.so.

    >>> reason = missing()
    >>> reason is None or reason.startswith(("this ", "precast-loader ", "the call path "))
    True
    """
    if sys.implementation.name != "cpython":
        return f"this is {sys.implementation.name}, not CPython"
    if set(sys.abiflags) & set("td"):
        return f"this Python has another ABI ({sys.abiflags})"
    load_ffi()
    try:
        with IMPORT_LOCK:
            import precast.loader.native._callpath  # noqa: F401
    except ModuleNotFoundError:
        return "precast-loader is installed without native code"
    except ImportError as error:  # this Python, embedded in an unusual way, hides its symbols
        return f"the call path cannot be imported ({error})"
    except RuntimeError as error:  # this is a sub-interpreter
        raise LoadError(str(error)) from None
    return None


def is_turned_off() -> bool:
    """Whether the environment requires that every call goes through tvm_ffi."""
    return os.environ.get(VARIABLE) == "0" or os.environ.get(_SKIPS) == "1"
