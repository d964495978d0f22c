"""CUDA's start, beside the imports: a thread makes the primary context while Python imports torch.

Starting the driver and making a context takes some tenths of a second, in which Python need not wait: the driver runs
without its lock. torch and the kernels then use that context. What fails here fails again where it is needed, and is
told there.
"""

from __future__ import annotations

import ctypes
import threading

DEVICE = 0  # torch's "cuda", where no other is chosen


def begin() -> threading.Thread | None:
    """Start to make the context; None where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    thread = threading.Thread(target=_make_context, args=(driver,), name="early CUDA", daemon=True)
    thread.start()
    return thread


def _make_context(driver: ctypes.CDLL) -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), DEVICE) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
