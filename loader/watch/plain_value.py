"""Arguments of a call as plain values: a tensor as its address and layout, a number as Python's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from precast.loader.contract.values import Immutable
from precast.loader.launch.ffi import import_tvm_ffi


class View(Immutable, kw_only=True):
    """A tensor as a caller passes it: its address and its layout."""

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: tuple[int, int]


def plain_value(value: Any) -> tuple[Any, Any]:
    """A tensor as a View, a number as Python's own; and the object that keeps the view's memory alive.

    >>> plain_value(5), plain_value(None)
    ((5, 5), (None, None))
    """
    kind = type(value)
    if not hasattr(kind, "__dlpack__") and not hasattr(kind, "__dlpack_c_exchange_api__"):
        if value is None or isinstance(value, (bool, int, float, str, bytes, tuple, list, dict)):
            return value, value
        if isinstance(value, Integral):
            return int(value), value
        return (float(value) if isinstance(value, Real) else value), value
    tensor = _importer()(value)
    device = tensor.device
    view = View(
        data=tensor.data_ptr(),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.strides),
        dtype=str(tensor.dtype),
        device=(device.dlpack_device_type(), device.index),
    )
    return view, tensor


@functools.cache
def _importer() -> Callable[[Any], Any]:
    """The function that imports a tensor by DLPack. Cached here, once the import of its module is complete."""
    function: Callable[[Any], Any] = import_tvm_ffi().from_dlpack
    return function


def current_stream(device: int) -> int:
    """The caller's current stream on a device: torch's, where torch is imported; else the default one."""
    torch = sys.modules.get("torch")
    return int(torch.cuda.current_stream(device).cuda_stream) if torch is not None else 0
