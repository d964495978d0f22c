"""Stores consecutive elements of a row of the result."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute


@cute.jit
def store(
    out: cute.Tensor, row: cutlass.Int32, column: cutlass.Int32, values: cute.Tensor, whole: cutlass.Constexpr
) -> None:
    """Store consecutive elements of a row of ``out``, whose rows are contiguous, except those past its end.

    ``whole`` allows one vector store: the column is a multiple of the number of elements, and rows are aligned.
    """
    count = cute.size(values)
    if row < out.shape[0]:
        pointer = out.iterator + (cutlass.Int64(row) * out.stride[0] + column)
        if cutlass.const_expr(whole):
            if column + count <= out.shape[1]:
                aligned = out.iterator + cute.assume(cutlass.Int64(row) * out.stride[0] + column, divby=count)
                cute.autovec_copy(values, cute.make_tensor(aligned, cute.make_layout(count)))
            else:
                cut(out, pointer, column, values)
        else:
            cut(out, pointer, column, values)


@cute.jit
def cut(out: cute.Tensor, pointer: cute.Pointer, column: cutlass.Int32, values: cute.Tensor) -> None:
    """Store element by element, up to the end of the row."""
    to = cute.make_tensor(pointer, cute.make_layout(cute.size(values)))
    for i in cutlass.range_constexpr(cute.size(values)):
        if column + i < out.shape[1]:
            to[i] = values[i]
