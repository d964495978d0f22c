"""An entry that does what its first argument says (``native/echo.c``), and how its calls end."""

from __future__ import annotations

import gc
import os
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from precast.loader.contract.format.target import Capability
from precast.loader.launch.callpath import is_turned_off, missing
from precast.loader.launch.kernel import Kernel
from precast.loader.machine.machine import Machine

HOPPER = Machine(arch=platform.machine(), glibc=(2, 36), tvm_ffi="0.1.15", capability=Capability(9, 0))
RETURN_INT, RETURN_FLOAT, RETURN_BOOL, RETURN_TEXT, RETURN_TENSOR, LEAVE_NO_ERROR, SLEEP = range(1, 8)
RAISE = 10

# Tests of the call path itself: a Python that it does not serve, such as a free-threaded one, calls through tvm_ffi.
needs_call_path = pytest.mark.skipif(is_turned_off() or missing() is not None, reason=f"no call path: {missing()}")


def outcome(kernel: Kernel, *args: Any) -> Any:
    """What a call does: the type and value of what it returns or raises."""
    try:
        result = kernel(*args)
    except Exception as error:
        return "raised", type(error), str(error).partition("\nException raised from")[0]  # where, in torch
    torch = sys.modules.get("torch")  # no tensor without it
    if torch and isinstance(result, torch.Tensor):
        return "tensor", result.shape, result.dtype
    return "returned", type(result), result


def resident() -> int:
    """The bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def hands_over(kernel: Kernel, *args: Any) -> bool:
    """Whether a call leaves the call path for tvm_ffi."""
    seen = []
    kernel._launch, launch = (lambda *a: seen.append(a)), kernel._launch
    try:
        kernel(*args)
    except Exception:
        pass
    finally:
        kernel._launch = launch
    return bool(seen)
