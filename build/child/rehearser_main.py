"""The rehearser: a process that calls a kernel's entry and says what it would have launched.

Started by ``precast.build.link.rehearsal``. The host code is linked against the recording runtime of ``rehearsal.c``,
and called with tensors that are addresses only. It was compiled a moment ago: if it crashes, only this process ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
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

from precast.build.child.serve import serve
from precast.build.ipc.message import Message

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
    """One kernel's entry, linked against the recording runtime."""

    def __init__(self, ffi: str, recorder: str, variant: str, symbol: str, sizes: list[int]) -> None:
        self._ffi = ctypes.CDLL(ffi)
        runtime = ctypes.CDLL(recorder)
        self._entry = getattr(ctypes.CDLL(variant), symbol)
        self._record = _Record.in_dll(runtime, "rehearsed")
        kept = (c_uint32 * 64).in_dll(runtime, "parameter_sizes")
        for place, size in enumerate(sizes):
            kept[place] = size
        self._sizes = sizes

    def call(self, arguments: list[Any]) -> dict[str, Any]:
        """What one call would launch, or the error that it raises."""
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
    """Write one argument. The caller keeps the returned objects alive during the call."""
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
    """Call what a build asks for."""
    serve(lambda settings: answer)


def answer(request: Mapping[str, Any]) -> Message:
    """Open one kernel's host code and call it with each list of arguments."""
    rehearser = Rehearser(*(request[name] for name in ("ffi", "recorder", "variant", "symbol", "sizes")))
    return Message({"launches": [rehearser.call(arguments) for arguments in request["calls"]]})


if __name__ == "__main__":
    main()
