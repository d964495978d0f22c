"""The process that rehearses: it calls a kernel's entry and answers what would have been launched.

The host code is opened beside the stand-in of ``rehearsal.c``, and called with tensors that are addresses only. All of
this happens in a process of its own, since what runs was compiled a moment ago.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_int32,
    c_int64,
    c_ubyte,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

_INT, _BOOL, _FLOAT, _TENSOR, _HEADER = 1, 2, 3, 7, 24  # TVM-FFI's type indices; the size of an object's header


class _Tensor(Structure):
    _fields_ = (
        ("data", c_uint64), ("device_type", c_int32), ("device_id", c_int32), ("rank", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )  # fmt: skip


class _Value(ctypes.Union):
    _fields_ = (("integer", c_int64), ("real", ctypes.c_double), ("pointer", c_void_p))


class _Any(Structure):
    _fields_ = (("kind", c_int32), ("padding", c_uint32), ("value", _Value))


class _Text(Structure):
    _fields_ = (("data", POINTER(c_char)), ("size", ctypes.c_size_t))


class _Record(Structure):
    _fields_ = (
        ("launches", c_uint32), ("grid", c_uint32 * 3), ("block", c_uint32 * 3), ("cluster", c_uint32 * 3),
        ("shared", c_uint64), ("stream", c_uint64), ("unknown", c_int32), ("kernel", c_char * 1024),
        ("parameters", (c_ubyte * 256) * 64),
    )  # fmt: skip


class Rehearser:
    """One kernel's entry, opened beside the stand-in."""

    def __init__(self, ffi: str, double: str, variant: str, symbol: str, sizes: list[int]) -> None:
        self._ffi = ctypes.CDLL(ffi)
        stand_in = ctypes.CDLL(double)
        self._entry = getattr(ctypes.CDLL(variant), symbol)
        self._record = _Record.in_dll(stand_in, "rehearsed")
        kept = (c_uint32 * 64).in_dll(stand_in, "parameter_sizes")
        for place, size in enumerate(sizes):
            kept[place] = size
        self._sizes = sizes

    def call(self, arguments: list[Any]) -> dict[str, Any]:
        """What one call would launch, or the error that it ends in."""
        ctypes.memset(ctypes.byref(self._record), 0, ctypes.sizeof(self._record))
        packed = (_Any * max(1, len(arguments)))()
        kept = [_pack(argument, packed[place]) for place, argument in enumerate(arguments)]
        result = _Any()
        if self._entry(None, packed, len(arguments), ctypes.byref(result)):
            return {"error": self._error()}
        del kept
        r = self._record
        return {
            "launches": r.launches,
            "kernel": r.kernel.decode(),
            "grid": list(r.grid),
            "block": list(r.block),
            "cluster": list(r.cluster),
            "shared": r.shared,
            "unknown": r.unknown,
            "parameters": [bytes(r.parameters[i])[:size].hex() for i, size in enumerate(self._sizes)],
        }

    def _error(self) -> list[str]:
        handle = c_void_p()
        self._ffi.TVMFFIErrorMoveFromRaised(ctypes.byref(handle))
        if not handle.value:
            return ["", ""]
        texts = (_Text * 2).from_address(handle.value + _HEADER)
        return [ctypes.string_at(text.data, text.size).decode() for text in texts]


def _pack(argument: Any, out: _Any) -> Any:
    """Write one argument; what is returned must live as long as the call."""
    if isinstance(argument, dict):
        shape, strides = ((c_int64 * max(1, len(n)))(*n) for n in (argument["shape"], argument["strides"]))
        device, dtype = argument["device"], argument["dtype"]
        tensor = _Tensor(argument["data"], *device, len(argument["shape"]), *dtype, shape, strides, 0)
        out.kind, out.value.pointer = _TENSOR, ctypes.addressof(tensor)
        return tensor, shape, strides
    if isinstance(argument, bool):
        out.kind, out.value.integer = _BOOL, argument
    elif isinstance(argument, int):
        out.kind, out.value.integer = _INT, argument
    elif isinstance(argument, float):
        out.kind, out.value.real = _FLOAT, argument
    return None


def main() -> None:
    """Read one request, answer it, and leave without the exit handlers of what was opened."""
    request = json.load(sys.stdin)
    rehearser = Rehearser(*(request[name] for name in ("ffi", "double", "variant", "symbol", "sizes")))
    json.dump([rehearser.call(arguments) for arguments in request["calls"]], sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
