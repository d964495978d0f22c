"""float8_e4m3fn: the scale of values, and how they are stored over it."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.float8 import LARGEST


@cute.jit
def size(values: Any) -> cutlass.Float32:
    """The largest size of a value in a vector of float32."""
    return cute.math.absf(values).reduce(cute.ReductionOp.MAX, cutlass.Float32(0), 0)


@cute.jit
def scale_of(largest: cutlass.Float32, least: cutlass.Constexpr) -> cutlass.Float32:
    """The scale over which the largest value is stored as the largest number; at least ``least``."""
    return cute.arch.fmax(largest * (1.0 / LARGEST), cutlass.Float32(least))


@cute.jit
def store(values: Any, destination: cute.Tensor) -> None:
    """Store a vector of float32 as float8, which clamps."""
    result = cute.make_rmem_tensor(cute.size(destination), cutlass.Float8E4M3FN)
    result.store(values.to(cutlass.Float8E4M3FN))
    cute.autovec_copy(result, destination)
