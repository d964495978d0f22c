"""From a process with torch and CUDA ready to the first result: ours beside the DSL, each in processes of its own.

Needs a GPU and a cache with ``scale`` for float32; the DSL for what it is compared with.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

from loader_benchmark import Result

from loader_sections._child import child
from loader_sections._table import Table

TIMES = 5
OURS, JIT, DISK = "precast", "just-in-time with the DSL", "the DSL loading a ready .o"

READY = """
import sys, time, torch
x = torch.randn(1024, device="cuda"); y = torch.empty_like(x); torch.mul(x, 3.0, out=y); torch.cuda.synchronize()
torch.Tensor.__dlpack_c_exchange_api__
start = time.perf_counter()
"""
DONE = """
torch.cuda.synchronize()
taken = time.perf_counter() - start
assert torch.equal(y, x * 2.0)
print(taken * 1e3)
"""
USE = """
from precast import loader
loader.get("scale", {"dtype": "float32"})(x, y, 2.0)
"""
COMPILE = """
from precast.kernels.scale import scale
compiled = scale("float32"); compiled(x, y, 2.0)
"""
EXPORT = """
from precast.kernels.scale import scale
scale("float32").export_to_c({path!r}, function_name="scale")
print("written")
"""
LOAD = """
import cutlass.cute as cute
cute.runtime.load_module({path!r}, enable_tvm_ffi=True).scale(x, y, 2.0)
"""


GPU = True


def run() -> Iterator[Result]:
    """The figures, then the bounds."""
    yield from _measured().results()


def _measured() -> Table:
    """The best of several processes each: what a process that others do not disturb takes."""
    table = Table("ms")
    try:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("there is no CUDA device")
    except ImportError as error:
        table.notes.append(f"left out: {error}")
        return table
    table.figures[OURS] = _best(READY + USE + DONE, {})
    table.figures["precast, through tvm_ffi"] = _best(READY + USE + DONE, {"PRECAST_FASTCALL": "0"})
    if importlib.util.find_spec("cutlass") is None:
        table.notes.append("the DSL is not installed, so there is nothing to compare with")
        return table
    table.figures[JIT] = _best(READY + COMPILE + DONE, {})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "scale.o"))
        child(EXPORT.format(path=path))
        table.figures[DISK] = _best(READY + LOAD.format(path=path) + DONE, {})
    table.bound(OURS, 1 / 200, JIT)
    table.bound(OURS, 1 / 150, DISK)
    return table


def _best(script: str, environment: dict[str, str]) -> float:
    child(script, **environment)
    return min(float(child(script, **environment)) for _ in range(TIMES))
