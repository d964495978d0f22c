"""Importing precast.loader, against importing tvm_ffi, each in a fresh process that has torch imported.

The loader imports its parts when they are used, so what a first ``get`` needs is held to the same bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from loader_benchmark import Result

from loader_sections._child import child

CODE = "import time, torch; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
OURS, ALL, THEIRS = "import precast.loader", "from precast.loader import get", "import tvm_ffi"
ROUNDS = 6


def seconds(statement: str) -> float:
    """How long one import takes in a process that has torch."""
    return float(child(CODE.format(statement)))


def run() -> Iterator[Result]:
    """The two are taken in turn, so that a busy machine is busy for both."""
    rows = [tuple(map(seconds, (OURS, ALL, THEIRS))) for _ in range(ROUNDS + 1)]
    ours, everything, theirs = (min(column) for column in zip(*rows[1:], strict=True))
    yield Result(what=OURS, value=ours * 1e3, unit="ms")
    yield Result(what=f"{ALL}: all that a first get imports", value=everything * 1e3, unit="ms")
    yield Result(what=THEIRS, value=theirs * 1e3, unit="ms")
    yield Result(what="precast.loader / tvm_ffi", value=ours / theirs, unit="", at_most=0.25)
    yield Result(what="all that a first get imports / tvm_ffi", value=everything / theirs, unit="", at_most=0.25)
