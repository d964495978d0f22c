"""CUDA's context, made by a thread while Python imports torch.

The driver runs without Python's lock, so that its start and the imports overlap. torch and the kernels then use that
context. What fails here fails again where it is needed, and is told there.
"""

from __future__ import annotations

import ctypes
import threading

DEVICE = 0  # torch's "cuda", where no other is chosen


def make_in_thread() -> threading.Thread | None:
    """Begin to make the context; None where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    thread = threading.Thread(target=_make, args=(driver,), name="CUDA context", daemon=True)
    thread.start()
    return thread


def _make(driver: ctypes.CDLL) -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), DEVICE) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
