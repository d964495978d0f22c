"""Importing precast.loader, against importing tvm_ffi, each in a fresh process that has torch imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from loader_benchmark import Result

CODE = "import time, torch; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
ROUNDS = 4


def seconds(module: str) -> float:
    """How long one import takes in a process that has torch."""
    done = subprocess.run([sys.executable, "-c", CODE.format(module)], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def run() -> Iterator[Result]:
    """The two are taken in turn, so that a busy machine is busy for both."""
    seconds("precast.loader"), seconds("tvm_ffi")
    pairs = [(seconds("precast.loader"), seconds("tvm_ffi")) for _ in range(ROUNDS)]
    ours, theirs = (min(column) for column in zip(*pairs, strict=True))
    yield Result(what="import precast.loader", value=ours * 1e3, unit="ms")
    yield Result(what="import tvm_ffi", value=theirs * 1e3, unit="ms")
    yield Result(what="precast.loader / tvm_ffi", value=ours / theirs, unit="", at_most=0.25)
