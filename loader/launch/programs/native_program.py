"""Native programs: the host programs of cubins, run by the call path of their cache (``build/link/host_program``)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import field
from typing import Any

from precast.loader.errors import FormatError, LaunchError, LoadError
from precast.loader.fast_start.values import Immutable
from precast.loader.format.artifact import Artifact
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.library import Library, address_in
from precast.loader.launch.programs.program_code import program_code
from precast.loader.machine.driver import LIBRARY
from precast.loader.resolve.cache import Cache

_FUNCTIONS = ("open", "call", "ready")
_DRIVER = (
    "cuLibraryLoadData", "cuLibraryUnload", "cuLibraryGetKernel", "cuKernelGetParamInfo", "cuKernelSetAttribute",
    "cuCtxGetDevice", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
    "cuLaunchKernelEx", "cuGetErrorName", "cuGetErrorString",
)  # fmt: skip
_ROOM = 512


class NativeProgram(Immutable, eq=False):
    """An opened host program. It is never closed: a stream may still run its code.

    ``entry`` is the address of what calls it, as an object's entry is called, with ``address`` for itself.
    """

    library: Library
    address: int
    entry: int
    _ready: Callable[..., int] = field(repr=False)
    _code: Any = field(repr=False)

    def ready(self, device: int) -> None:
        """Do now what the first launch on a device would do."""
        if self._ready(self.address, device):
            with IMPORT_LOCK:
                from precast.loader.launch.call_errors import raised
            raise LaunchError(raised())


def open_native(library: Library, cache: Cache, op: str, artifact: Artifact) -> NativeProgram | None:
    """Open the host program of a cubin; None where native code cannot run it, and cuda-python must.

    Parameters
    ----------
    library
        The call path of the cache.
    cache, op, artifact
        What to open; an artifact with a host program.
    """
    found = [address_in(library.handle, f"precast_program_{name}") for name in _FUNCTIONS]
    driver = driver_functions(LIBRARY)
    if driver is None or not all(found):
        return None
    try:
        code = program_code(op, artifact.signature, artifact.program) if artifact.program else b""
    except FormatError:
        return None
    if not code:
        return None
    address = open_code(library, code, cache.read(artifact.blob), driver)
    if isinstance(address, str):
        raise LoadError(f"{artifact.key[:12]}: {address}: rebuild the cache")
    ready = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int32)(found[2] or 0)
    return NativeProgram(library, address, found[1] or 0, ready, driver)


def open_code(library: Library, code: bytes, cubin: bytes, driver: Any) -> int | str:
    """Open the code of a host program: where it is, or why it is none. ``driver`` has the driver's functions."""
    make = ctypes.CFUNCTYPE(
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
        ctypes.c_char_p, ctypes.c_size_t,
    )(library.address("precast_program_open"))  # fmt: skip
    error = ctypes.create_string_buffer(_ROOM)
    found: int | None = make(code, len(code), cubin, len(cubin), ctypes.addressof(driver), error, _ROOM)
    return found or error.value.decode(errors="replace")


def driver_functions(name: str) -> Any:
    """The addresses of the driver's functions in the order that native code takes them; None where one is missing."""
    try:
        driver = ctypes.CDLL(name)
        found = [ctypes.cast(getattr(driver, one), ctypes.c_void_p).value for one in _DRIVER]
    except (OSError, AttributeError):
        return None
    return (ctypes.c_void_p * len(_DRIVER))(*found)
