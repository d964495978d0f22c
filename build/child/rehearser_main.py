"""The rehearser: a process that calls a kernel's entry and records what it would have launched.

Started by ``precast.build.rehearsal.recorder``. The host code is linked against the recording runtime of
``recorder.c``, and called with tensors that are addresses only. It was compiled a moment ago: if it crashes, only this
process ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import Structure, c_char, c_int32, c_int64, c_ubyte, c_uint32, c_uint64
from typing import Any

from precast.build.child.serve import serve
from precast.build.ipc.message import Message
from precast.loader.contract.abi.dlpack import Tensor
from precast.loader.contract.abi.tvm_ffi_abi import TENSOR, AnyValue, number_value, pointer_value, take_error

_LAUNCHES, _KERNELS, _PARAMETERS, _BYTES, _NAME = 8, 8, 64, 4096, 1024
_STACKS = (0x5A, 0xA5)  # what the stack is full of before a call, and before the same call again


class _Launch(Structure):
    _fields_ = (
        ("kernel", c_int32), ("unknown", c_int32), ("grid", c_uint32 * 3), ("block", c_uint32 * 3),
        ("cluster", c_uint32 * 3), ("overlap", c_uint32), ("shared", c_uint64), ("parameters", c_ubyte * _BYTES),
    )  # fmt: skip


class _Record(Structure):
    _fields_ = (("count", c_uint32), ("padding", c_uint32), ("launches", _Launch * _LAUNCHES))


class _Kernel(Structure):
    _fields_ = (("name", c_char * _NAME), ("count", c_uint32), ("sizes", c_uint32 * _PARAMETERS))


class Rehearser:
    """One kernel's entry, linked against the recording runtime. ``kernels`` has the sizes of each one's parameters."""

    def __init__(self, ffi: str, recorder: str, variant: str, symbol: str, kernels: Mapping[str, list[int]]) -> None:
        self._ffi = ctypes.CDLL(ffi)
        self._runtime = ctypes.CDLL(recorder)
        self._entry = getattr(ctypes.CDLL(variant), symbol)
        self._record = _Record.in_dll(self._runtime, "rehearsed")
        self._names = list(kernels)
        table = (_Kernel * _KERNELS).in_dll(self._runtime, "kernels")
        for number, (name, sizes) in enumerate(kernels.items()):
            table[number].name, table[number].count = name.encode(), len(sizes)
            for parameter, size in enumerate(sizes):
                table[number].sizes[parameter] = size
        self._lengths = [sum(sizes) for sizes in kernels.values()]

    def call(self, arguments: list[Any]) -> dict[str, Any]:
        """The launches of one call, or the error that it raises. ``set`` marks the bytes that the host code wrote."""
        values, kept = zip(*map(_pack, arguments), strict=True) if arguments else ((), ())
        packed = (AnyValue * max(1, len(values)))(*values)
        seen = []
        for stack in _STACKS:
            result = AnyValue()
            if self._runtime.rehearse(self._entry, packed, len(arguments), ctypes.byref(result), stack):
                return {"error": list(take_error(self._ffi))}
            seen.append([self._launch(launch) for launch in self._record.launches[: self._record.count]])
        del kept
        first, second = seen
        for launch, repeated in zip(first, second, strict=True):
            launch["set"] = _written(launch["parameters"], repeated["parameters"]).hex()
            launch["parameters"] = launch["parameters"].hex()
        return {"count": self._record.count, "launches": first}

    def _launch(self, launch: _Launch) -> dict[str, Any]:
        in_range = 0 <= launch.kernel < len(self._names)
        return {
            "kernel": self._names[launch.kernel] if in_range else "",
            "grid": list(launch.grid),
            "block": list(launch.block),
            "cluster": list(launch.cluster),
            "overlap": launch.overlap,
            "shared": launch.shared,
            "unknown": launch.unknown,
            "parameters": bytes(launch.parameters)[: self._lengths[launch.kernel] if in_range else 0],
        }


def _written(first: bytes, second: bytes) -> bytes:
    """1 for each byte that was written: the same on both stacks."""
    return bytes(a == b for a, b in zip(first, second, strict=True))


def _pack(argument: Any) -> tuple[AnyValue, Any]:
    """One argument, and what must live while it is used."""
    if isinstance(argument, dict):
        shape, strides = ((c_int64 * max(1, len(n)))(*n) for n in (argument["shape"], argument["strides"]))
        device, dtype = argument["device"], argument["dtype"]
        tensor = Tensor(argument["data"], *device, len(argument["shape"]), *dtype, shape, strides, 0)
        return pointer_value(TENSOR, ctypes.addressof(tensor)), (tensor, shape, strides)
    return (AnyValue() if argument is None else number_value(argument)), None


def main() -> None:
    """Serve requests of a build."""
    serve(start)


def start(settings: Mapping[str, Any]) -> Any:
    """Open one kernel's host code, and return the function that calls it with lists of arguments."""
    names = ("ffi", "recorder", "variant", "symbol", "kernels")
    rehearser = Rehearser(*(settings[name] for name in names))
    return lambda request: Message({"answers": [rehearser.call(arguments) for arguments in request["calls"]]})


if __name__ == "__main__":
    main()
