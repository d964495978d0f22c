"""Rows of a matrix in segments: what ``moe_permute`` writes and ``moe_finalize`` reads."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_tensor

from precast.kernels.own.device.vectors import ALIGN


@cute.jit
def fetch_rows(rows: cute.Tensor, token: cutlass.Int32, segments: cute.Tensor, topk: cutlass.Constexpr) -> cute.Tensor:
    """The rows of a token's choices, in registers; -1 for a choice outside all segments."""
    total = cutlass.Int32(segments.shape[0] * segments.shape[1])
    numbers = cute.make_rmem_tensor(topk, cutlass.Int32)
    for j in cutlass.range_constexpr(topk):
        numbers[j] = (rows.iterator + cutlass.Int64(token) * topk + j).load()
    for j in cutlass.range_constexpr(topk):
        if numbers[j] >= total:
            numbers[j] = cutlass.Int32(-1)
    return numbers


@cute.jit
def row_offset(segments: cute.Tensor, row: cutlass.Int32) -> cutlass.Int64:
    """Where a row begins. One segment alone takes no division."""
    segment, within = cutlass.Int32(0), row
    if segments.shape[0] > 1:
        segment = row // cutlass.Int32(segments.shape[1])
        within = row - segment * cutlass.Int32(segments.shape[1])
    return cutlass.Int64(segment) * segments.stride[0] + cutlass.Int64(within) * segments.stride[1]


def fake_matrix(dtype: Any, tokens: Any, hidden: int) -> Any:
    """Stands for ``[tokens, hidden]`` with a free row stride."""
    stride = cute.sym_int64(divisibility=ALIGN * 8 // dtype.width)
    return make_fake_tensor(dtype, (tokens, hidden), (stride, 1), assumed_align=ALIGN)


def fake_segments(dtype: Any, segments: Any, rows: Any, hidden: int) -> Any:
    """Stands for ``[segments, rows, hidden]`` with free strides of segments and rows."""
    strides = tuple(cute.sym_int64(divisibility=ALIGN * 8 // dtype.width) for _ in range(2))
    return make_fake_tensor(dtype, (segments, rows, hidden), (*strides, 1), assumed_align=ALIGN)


def fake_choices(dtype: Any, tokens: Any, topk: int) -> Any:
    """Stands for ``[tokens, topk]`` of four bytes each."""
    return make_fake_compact_tensor(dtype, (tokens, topk), stride_order=(1, 0), assumed_align=4)
