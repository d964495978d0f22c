"""What an emulated call launches: said by an object's own host code, or by the host program of a cubin.

An object's library is opened as it is, with the recording runtime in place of its cache's. A cubin has no host code in
the cache: its host program is what ships, so that is what is evaluated.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from precast.build.child.recording_runtime import LAUNCHES, RecordingRuntime
from precast.emulator import Launch
from precast.loader.contract.format.program.call_leaves import leaves_of
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.contract.format.signature import Signature
from precast.measure.child.emulation.arguments import CallError, Packer, drawn

_STACK = 0x5A
STREAM = 0x57EA  # the caller's: it is compared, and never used


class HostCode(Protocol):
    """What makes the launches of a call."""

    def launches(self, values: Sequence[Any]) -> list[Launch]:
        """The launches of a call with these arguments, in the order of the signature."""


class ObjectCode:
    """The host code of an object's library.

    Parameters
    ----------
    runtime
        The recording runtime, which this process opened under the name of the runtime of the library's cache.
    library, symbol, signature
        The library's file, its entry, and what that takes.
    kernels
        The sizes of the parameters of each of its kernels.
    attributes
        The numbers of the device that its host code may query.
    """

    def __init__(
        self,
        runtime: RecordingRuntime,
        library: Path,
        symbol: str,
        signature: Signature,
        kernels: Mapping[str, Sequence[int]],
        attributes: Mapping[int, int],
    ) -> None:
        self._runtime, self._signature = runtime, signature
        self._kernels, self._attributes = kernels, attributes
        self._entry = getattr(ctypes.CDLL(str(library)), symbol)

    def launches(self, values: Sequence[Any]) -> list[Launch]:
        """The launches of a call; raises CallError where the host code refuses it."""
        runtime = self._runtime
        runtime.use_kernels(self._kernels)
        runtime.use_attributes(self._attributes)
        runtime.use_stream(STREAM)
        with Packer(runtime.ffi) as packer:
            packed = [packer.value(a, v) for a, v in zip(self._signature.passed, values, strict=True)]
            error = runtime.call(self._entry, packed, _STACK)
        if runtime.unknown_attribute:
            raise CallError(f"its host code queries attribute {runtime.unknown_attribute} of the device")
        if error is not None:
            raise CallError(": ".join(error))
        if runtime.count > LAUNCHES:
            raise CallError(f"a call makes {runtime.count} launches, of at most {LAUNCHES} that are recorded")
        recorded = runtime.launches()
        for launch in recorded:
            if not runtime.kernel(launch):
                raise CallError("it launches a kernel that its PTX lacks: build the cache again")
            if launch.unknown:
                raise CallError(f"it launches with attribute {launch.unknown}, which is not emulated")
            if launch.stream != STREAM:
                raise CallError(f"it launches {runtime.kernel(launch)} on another stream than the caller's")
        return [
            Launch(
                kernel=runtime.kernel(launch),
                grid=_three(launch.grid),
                block=_three(launch.block),
                cluster=_three(launch.cluster),
                preferred=_three(launch.preferred),
                shared=launch.shared,
                overlap=bool(launch.overlap),
                parameters=runtime.parameters(launch),
            )
            for launch in recorded
        ]


class ProgramCode:
    """The host program of a cubin. ``kernels`` has the sizes of the parameters of each kernel."""

    def __init__(self, program: HostProgram, signature: Signature, kernels: Mapping[str, Sequence[int]]) -> None:
        self._program, self._signature, self._kernels = program, signature, kernels

    def launches(self, values: Sequence[Any]) -> list[Launch]:
        """The launches of a call; raises LaunchError where the program refuses it."""
        leaves = leaves_of(self._signature, [drawn(a, v) for a, v in zip(self._signature.passed, values, strict=True)])
        return [
            Launch(
                kernel=kernel,
                grid=launch.grid,
                block=launch.block,
                cluster=launch.cluster,
                shared=launch.shared,
                overlap=launch.overlap,
                parameters=tuple(
                    data.ljust(size, b"\0") for data, size in zip(parameters, self._kernels[kernel], strict=True)
                ),
            )
            for kernel, launch, parameters in self._program.launches(leaves)
        ]


def _three(sizes: Any) -> tuple[int, int, int]:
    x, y, z = sizes
    return int(x), int(y), int(z)
