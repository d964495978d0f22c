"""The call path: native code out of a cache that calls kernels without the Python package tvm_ffi.

A cache may hold it for a host, beside the runtime library; ``precast-loader`` itself is pure Python. It serves CPython
3.10 and up by its stable ABI. Where there is none, or it does not fit this Python, kernels are called through tvm_ffi.
"""

from __future__ import annotations

import ctypes
import os
import sys

from precast.loader.errors import LoadError
from precast.loader.fast_start.values import Immutable
from precast.loader.format.artifact import Blob
from precast.loader.launch.library import Library, address_in, load_ffi, open_bytes
from precast.loader.resolve.cache import Cache

VARIABLE = "PRECAST_FASTCALL"
_SKIPS = "TVM_FFI_SKIP_DLPACK_C_EXCHANGE_API"  # tvm_ffi honours it, so this replacement of tvm_ffi does, too


class FastCall(Immutable, eq=False):
    """The call path of a cache. ``launcher`` is the type whose instances call entries; ``passing`` is the address of
    an entry that returns the object which the last one returned. ``library`` is the call path itself."""

    launcher: type
    passing: int
    library: Library


def open_fastcall(cache: Cache, blob: Blob) -> FastCall | None:
    """Open the call path of a cache; None where this Python cannot use it, and kernels are called through tvm_ffi."""
    library = open_callpath(cache, blob)
    return _fastcall_in(library) if library else None


def open_callpath(cache: Cache, blob: Blob) -> Library | None:
    """Open the library of a call path; None where this Python, embedded in an unusual way, hides its symbols."""
    load_ffi()
    code = cache.read(blob)
    try:
        return Library(blob.sha256, open_bytes(code, blob.sha256, "precast:fastcall"))
    except LoadError:
        return None


def unsupported() -> str | None:
    """Why this Python cannot use a call path, or None.

    >>> why = unsupported()
    >>> why is None or why.startswith("this ") or why.endswith("turns it off")
    True
    """
    if sys.implementation.name != "cpython":
        return f"this is {sys.implementation.name}, not CPython"
    if set(sys.abiflags) & set("td"):
        return f"this Python has another ABI ({sys.abiflags})"
    if os.environ.get(VARIABLE) == "0" or os.environ.get(_SKIPS) == "1":
        return f"{VARIABLE} or {_SKIPS} in the environment turns it off"
    return None


def _fastcall_in(library: Library) -> FastCall:
    make, passing = (address_in(library.handle, name) for name in ("precast_launcher", "precast_pass"))
    if not make or not passing:
        raise LoadError("the call path is incomplete: rebuild the cache")
    try:
        launcher = ctypes.PYFUNCTYPE(ctypes.py_object)(make)()
        return FastCall(launcher=launcher, passing=passing, library=library)
    except ImportError as error:  # this is a sub-interpreter
        raise LoadError(str(error)) from None
