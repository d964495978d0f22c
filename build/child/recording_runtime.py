"""The runtime library that records launches, as a process that calls host code has it open.

``precast.build.rehearsal.recorder`` compiles it from ``recorder.c``. Rehearsals and the emulation of kernels use it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import Structure, c_char, c_int32, c_ubyte, c_uint32, c_uint64, c_void_p
from typing import Any

from precast.loader.contract.abi.dlpack import CUDA
from precast.loader.contract.abi.tvm_ffi_abi import AnyValue, take_error

LAUNCHES, KERNELS = 8, 8  # as many as the library has room for
_PARAMETERS, _BYTES, _NAME, _ATTRIBUTES = 64, 4096, 1024, 64


class RecordedLaunch(Structure):
    """A launch. ``kernel`` is the place of its name, -1 for an unknown one; parameters stand one after the other."""

    _fields_ = (
        ("kernel", c_int32), ("unknown", c_int32), ("grid", c_uint32 * 3), ("block", c_uint32 * 3),
        ("cluster", c_uint32 * 3), ("preferred", c_uint32 * 3), ("overlap", c_uint32), ("cooperative", c_uint32),
        ("shared", c_uint64), ("stream", c_uint64), ("parameters", c_ubyte * _BYTES),
    )  # fmt: skip


class _Record(Structure):
    _fields_ = (("count", c_uint32), ("padding", c_uint32), ("launches", RecordedLaunch * LAUNCHES))


class _Kernel(Structure):
    _fields_ = (("name", c_char * _NAME), ("count", c_uint32), ("sizes", c_uint32 * _PARAMETERS))


class _Attribute(Structure):
    _fields_ = (("id", c_int32), ("value", c_int32))


class RecordingRuntime:
    """The open library. It records the launches of one call at a time.

    Parameters
    ----------
    ffi, recorder
        The paths of TVM-FFI's library and of this one.
    """

    def __init__(self, ffi: str, recorder: str) -> None:
        self.ffi = ctypes.CDLL(ffi)
        self._library = ctypes.CDLL(recorder)
        self._record = _Record.in_dll(self._library, "rehearsed")
        self._names: list[str] = []
        self._sizes: list[list[int]] = []

    def use_kernels(self, kernels: Mapping[str, Sequence[int]]) -> None:
        """Record launches of these kernels, and so many bytes for each of their parameters."""
        self._names, self._sizes = list(kernels), [list(sizes) for sizes in kernels.values()]
        if len(kernels) > KERNELS or any(len(s) > _PARAMETERS or sum(s) > _BYTES for s in self._sizes):
            raise ValueError(f"more than {KERNELS} kernels, {_PARAMETERS} parameters or {_BYTES} bytes of them")
        table = (_Kernel * KERNELS).in_dll(self._library, "kernels")
        ctypes.memset(ctypes.addressof(table), 0, ctypes.sizeof(table))
        for row, name, sizes in zip(table, self._names, self._sizes, strict=False):
            row.name, row.count = name.encode(), len(sizes)
            row.sizes[: len(sizes)] = sizes

    def use_attributes(self, attributes: Mapping[int, int]) -> None:
        """Answer queries for attributes of the device, by their numbers in the CUDA runtime."""
        table = (_Attribute * _ATTRIBUTES).in_dll(self._library, "attributes")
        ctypes.memset(ctypes.addressof(table), 0, ctypes.sizeof(table))
        for row, (number, value) in zip(table, attributes.items(), strict=False):
            row.id, row.value = number, value

    def use_stream(self, stream: int) -> None:
        """Give this stream to host code that takes the caller's from its environment."""
        self.ffi.TVMFFIEnvSetStream(CUDA, 0, c_void_p(stream), None)

    def call(self, entry: Any, arguments: Sequence[AnyValue], stack: int) -> tuple[str, str] | None:
        """Call an entry on a stack full of one byte; the kind and the text of the error that it raises."""
        packed, result = (AnyValue * max(1, len(arguments)))(*arguments), AnyValue()
        if self._library.rehearse(entry, packed, len(arguments), ctypes.byref(result), stack):
            return take_error(self.ffi)
        return None

    @property
    def count(self) -> int:
        """How many launches the last call made, with those for which there was no room."""
        return int(self._record.count)

    @property
    def unknown_attribute(self) -> int:
        """The number of an attribute that the last call queried and that has no value here; 0 if there is none."""
        return c_int32.in_dll(self._library, "unknown_attribute").value

    def launches(self) -> list[RecordedLaunch]:
        """The launches of the last call, until the next one."""
        return list(self._record.launches[: self._record.count])

    def kernel(self, launch: RecordedLaunch) -> str:
        """The name of the kernel of a launch; empty for one that is not known."""
        return self._names[launch.kernel] if 0 <= launch.kernel < len(self._names) else ""

    def parameters(self, launch: RecordedLaunch) -> tuple[bytes, ...]:
        """The bytes of each parameter of a launch."""
        data, parts, begin = bytes(launch.parameters), [], 0
        for size in self._sizes[launch.kernel] if self.kernel(launch) else ():
            parts.append(data[begin : begin + size])
            begin += size
        return tuple(parts)
