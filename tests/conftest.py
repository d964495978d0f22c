"""What all tests share: those that need a CUDA device say so, and are skipped, with the reason, where there is none."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import pytest

GPU_TESTS = Path(__file__).parent / "gpu"
collect_ignore = ["demo"]  # scripts, not tests


@cache
def no_device() -> str:
    """Why nothing can be launched here; empty where a device is."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA device: libcuda.so.1 is not on this machine"
    count = ctypes.c_int()
    status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if status:
        return f"no CUDA device: the driver answers with error {status}"
    return "" if count.value else "no CUDA device: the driver shows none"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything under tests/gpu is marked ``gpu``; what is so marked runs only where a device is."""
    for item in items:
        if GPU_TESTS in item.path.parents:
            item.add_marker(pytest.mark.gpu)
        if item.get_closest_marker("gpu") and (reason := no_device()):
            item.add_marker(pytest.mark.skip(reason=reason))
