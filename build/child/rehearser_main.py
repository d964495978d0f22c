"""The rehearser: a process that calls a kernel's entry and records what it would have launched.

Started by ``precast.build.rehearsal.recorder``. The host code is linked against the recording runtime of
``recorder.c``, and called with tensors that are addresses only. It was compiled a moment ago: if it crashes, only this
process ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_int64
from typing import Any

from precast.build.child.recording_runtime import RecordedLaunch, RecordingRuntime
from precast.build.child.serve import serve
from precast.build.ipc.message import Message
from precast.loader.contract.abi.dlpack import Tensor
from precast.loader.contract.abi.tvm_ffi_abi import TENSOR, AnyValue, number_value, pointer_value

_STACKS = (0x5A, 0xA5)  # what the stack is full of before a call, and before the same call again
_COOPERATIVE, _PREFERRED_CLUSTER = 2, 11  # the numbers of these attributes of a launch


class Rehearser:
    """One kernel's entry, linked against the recording runtime. ``kernels`` has the sizes of each one's parameters."""

    def __init__(self, ffi: str, recorder: str, variant: str, symbol: str, kernels: Mapping[str, list[int]]) -> None:
        self._runtime = RecordingRuntime(ffi, recorder)
        self._runtime.use_kernels(kernels)
        self._entry = getattr(ctypes.CDLL(variant), symbol)

    def call(self, arguments: list[Any]) -> dict[str, Any]:
        """The launches of one call, or the error that it raises. ``set`` marks the bytes that the host code wrote."""
        values, kept = zip(*map(_pack, arguments), strict=True) if arguments else ((), ())
        seen = []
        for stack in _STACKS:
            error = self._runtime.call(self._entry, values, stack)
            if error is not None:
                return {"error": list(error)}
            seen.append([self._launch(launch) for launch in self._runtime.launches()])
        del kept
        first, second = seen
        for launch, repeated in zip(first, second, strict=True):
            launch["set"] = _written(launch["parameters"], repeated["parameters"]).hex()
            launch["parameters"] = launch["parameters"].hex()
        return {"count": self._runtime.count, "launches": first}

    def _launch(self, launch: RecordedLaunch) -> dict[str, Any]:
        return {
            "kernel": self._runtime.kernel(launch),
            "grid": list(launch.grid),
            "block": list(launch.block),
            "cluster": list(launch.cluster),
            "overlap": launch.overlap,
            "shared": launch.shared,
            "unknown": launch.unknown or _unsaid(launch),
            "parameters": b"".join(self._runtime.parameters(launch)),
        }


def _unsaid(launch: RecordedLaunch) -> int:
    """The number of an attribute that is recorded and that a host program cannot say; 0 without one."""
    if launch.cooperative:
        return _COOPERATIVE
    return _PREFERRED_CLUSTER if any(launch.preferred) else 0


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
