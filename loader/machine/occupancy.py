"""How many clusters of a size a GPU runs at once, counted by the CUDA driver itself.

The driver counts for a kernel: here for an empty one, of one thread, with all the shared memory that a block may have.
The DSL counts in the same way, with a kernel that it compiles only for this; the numbers are equal.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from precast.loader.errors import LaunchError

if TYPE_CHECKING:
    from precast.loader.machine.driver import Driver

_PTX = b".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n\0"
_MAX_SHARED_OPTIN = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
_SHARED, _NON_PORTABLE = 8, 14  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, .._NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` with the value of a cluster's dimensions."""

    _fields_ = (
        ("kind", ctypes.c_int32), ("padding", ctypes.c_int32), ("extent", ctypes.c_uint32 * 3),
        ("rest", ctypes.c_uint8 * 52),
    )  # fmt: skip


class _Launch(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint32),
    )  # fmt: skip


def count_clusters(driver: Driver, ordinal: int, cluster_size: int) -> int:
    """How many clusters of so many blocks run at once on a device; LaunchError where the driver cannot count them.

    It needs a context. The device's primary one is taken, which a launch needs as well, and it stays.
    """
    cuda, handle = driver.library, driver.handle(ordinal)
    context, module, kernel, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()

    def ask(name: str, *arguments: Any) -> None:
        function = getattr(cuda, name, None)
        code = function(*arguments) if function else "it is older than clusters"
        if code:
            raise LaunchError(
                f"the driver cannot count clusters of {cluster_size} ({name}: error {code}): choose another size"
            )

    ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    ask("cuCtxPushCurrent_v2", context)
    try:
        ask("cuModuleLoadData", ctypes.byref(module), _PTX)
        try:
            ask("cuModuleGetFunction", ctypes.byref(kernel), module, b"empty")
            shared = driver.attribute(ordinal, _MAX_SHARED_OPTIN) or 0
            ask("cuFuncSetAttribute", kernel, _SHARED, shared)
            ask("cuFuncSetAttribute", kernel, _NON_PORTABLE, 1)
            attribute = _Attribute(kind=_CLUSTER, extent=(cluster_size, 1, 1))
            launch = _Launch(
                grid=(cluster_size, 1, 1), block=(1, 1, 1), shared=shared, attributes=ctypes.pointer(attribute), count=1
            )
            ask("cuOccupancyMaxActiveClusters", ctypes.byref(count), kernel, ctypes.byref(launch))
        finally:
            cuda.cuModuleUnload(module)
    finally:
        cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
    return count.value
