"""Kernels that are wrong on purpose, for ``precast verify`` to find, and one that is right: ``out = 2 * x``.

Each takes ``(x, out, count)``: two matrices of float32 with row strides of their own, and a counter that stays with the
kernel from launch to launch. This module imports no compiler: it is also read where the kernels are launched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import Problem, Tolerance, kernel
from precast.loader.contract.format.config import Config


def problems(config: Config) -> list[Problem]:
    """No row, one element, tails, padded rows, and enough for every SM."""
    shapes = [(0, 64, 0), (1, 1, 0), (3, 37, 0), (5, 64, 3), (129, 67, 1), (1024, 512, 0)]
    return [{"rows": rows, "columns": columns, "padding": padding} for rows, columns, padding in shapes]


def large(config: Config) -> Problem:
    """More elements than 32 bits count."""
    return {"rows": (1 << 31) // 64 + 3, "columns": 64, "padding": 0}


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """The padding is of both matrices, so that it lies between their rows."""
    shape, stride = (problem["rows"], problem["columns"]), problem["columns"] + problem["padding"]
    return {
        "x": tensors.normal(shape, "float32", device=device, seed=seed, row_stride=stride),
        "out": tensors.empty(shape, "float32", device=device, row_stride=stride),
        "count": tensors.empty((1,), "int32", device=device).zero_(),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The product in float64."""
    return {"out": inputs["x"].double() * 2.0}


def tolerance(config: Config) -> Tolerance:
    """A little, so that what differs from run to run shows in its bits alone."""
    return Tolerance(rtol=2.0**-20, atol=2.0**-126)


def _compiling(kind: str) -> Callable[[], Any]:
    def compile_one() -> Any:
        from wrong_device import compile_kind  # type: ignore[import-not-found]

        return compile_kind(kind)

    compile_one.__name__ = kind
    declare = kernel(
        op=f"wrong.{kind}",
        targets=["sm_80+"],
        problems=problems,
        large=large,
        inputs=inputs,
        outputs=["out"],
        workspace=["count"],
        reference=reference,
        tolerance=tolerance,
    )
    return declare(compile_one)


right = _compiling("right")
tail = _compiling("tail")
race = _compiling("race")
behind = _compiling("behind")
before = _compiling("before")
unwritten = _compiling("unwritten")
changed = _compiling("changed")
stride = _compiling("stride")
stream = _compiling("stream")
zero = _compiling("zero")
huge = _compiling("huge")
again = _compiling("again")
reads = _compiling("reads")
