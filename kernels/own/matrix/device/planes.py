"""Products as the kernels see them: two sides of (along, k), a result of (m, n), and a number of such planes."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_tensor

_MODES = {"a": "mk", "b": "kn", "out": "mn"}


def stand_ins(dtypes: Any, majors: Any, align: int, *, batched: bool = False) -> list[Any]:
    """Placeholders of the caller's ``a``, ``b`` and ``out``. A dimension is one symbol wherever it appears, so
    that a call with shapes that do not fit together is refused; bases and lines are aligned, and strides free."""
    sizes = {name: cute.SymInt(32, symbol=name) for name in "lmnk"}

    def tensor(name: str, dtype: Any) -> Any:
        step = max(align * 8 // dtype.width, 1)
        modes = ("l" if batched else "") + _MODES[name]
        strides = tuple(1 if d == majors[name] else cute.SymInt(64, divisibility=step) for d in modes)
        return make_fake_tensor(dtype, tuple(sizes[d] for d in modes), strides, assumed_align=align)

    return [tensor(name, dtypes[name]) for name in _MODES]


def sides(a: Any, b: Any, out: Any, *, exchanged: bool = False) -> tuple[Any, Any, Any]:
    """The two sides and the result, each with its planes as third dimension.

    A result whose columns are contiguous is computed transposed, with the sides exchanged: then its rows are.
    """
    first, second, result = _planes(a, 0, 1), _planes(b, 1, 0), _planes(out, 0, 1)
    if exchanged:
        return second, first, _planes(out, 1, 0)
    return first, second, result


def plane(tensor: Any, number: Any, align: int) -> Any:
    """One plane of a tensor of three dimensions, aligned as its lines are: there may be 2**31 elements before it."""
    layout = cute.make_layout(tensor.shape[:2], stride=tensor.stride[:2])
    before = cute.assume(cutlass.Int64(number) * tensor.stride[2], divby=max(align * 8 // tensor.element_type.width, 1))
    return cute.make_tensor(tensor.iterator + before, layout)


def _planes(tensor: Any, row: int, column: int) -> Any:
    shape, stride = tuple(tensor.shape), tuple(tensor.stride)
    count, plane_stride = (shape[0], stride[0]) if len(shape) == 3 else (1, 0)
    shape, stride = shape[-2:], stride[-2:]
    layout = cute.make_layout((shape[row], shape[column], count), stride=(stride[row], stride[column], plane_stride))
    return cute.make_tensor(tensor.iterator, layout)
