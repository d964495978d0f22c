"""Vectors of 16 bytes: the widest memory access that every target has."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="name-defined,no-any-return"

from __future__ import annotations

import cutlass
import cutlass.cute as cute

ALIGN = 16


@cute.jit
def at(tensor: cute.Tensor, offset: cutlass.Int64, vector: cutlass.Constexpr) -> cute.Tensor:
    """The ``vector`` elements of a contiguous tensor from an offset that is a multiple of ``vector``."""
    pointer = tensor.iterator + cute.assume(offset, divby=vector)
    return cute.make_tensor(pointer, cute.make_layout(vector))
