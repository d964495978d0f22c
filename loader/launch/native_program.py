"""Native programs: the host programs of cubins, run by the call path. Import this only where there is one."""

from __future__ import annotations

import ctypes

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.program.program_code import program_code
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError, LaunchError, LoadError
from precast.loader.launch.library import address_in
from precast.loader.machine.driver import LIBRARY
from precast.loader.native._callpath import DRIVER_FUNCTIONS, open_program, ready_program
from precast.loader.resolve.cache import Cache


class NativeProgram(Immutable, eq=False):
    """An opened host program, by its address. It is never closed: a stream may still run its code."""

    address: int

    def ready(self, device: int) -> None:
        """Do now what the first launch on a device would do."""
        try:
            ready_program(self.address, device)
        except RuntimeError as error:
            raise LaunchError(str(error)) from None


def open_native(cache: Cache, op: str, artifact: Artifact) -> NativeProgram:
    """Open the host program of a cubin.

    Parameters
    ----------
    cache, op, artifact
        What to open.
    """
    try:
        program = artifact.program
        if program is None:
            raise LoadError(
                f"{artifact.key[:12]} is a cubin without a host program, for tools to read: declare launch= in @kernel"
            )
        code = program_code(op, artifact.signature, program)
    except FormatError as error:
        raise LoadError(f"{artifact.key[:12]} cannot be launched: {error}; use an object instead") from None
    try:
        address = open_program(code, cache.read(artifact.blob), driver_functions(LIBRARY))
    except ValueError as error:
        raise LoadError(f"{artifact.key[:12]}: {error}: rebuild the cache") from None
    return NativeProgram(address)


def driver_functions(name: str) -> tuple[int, ...]:
    """The addresses of the driver's functions that native code calls, in its order. Without a driver there are none,
    and no kernel is launched."""
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return ()
    addresses = [address_in(driver._handle, function) or 0 for function in DRIVER_FUNCTIONS]
    if not all(addresses):
        raise LoadError(
            f"cubins are launched through a driver for CUDA 12.4 or newer, and this one has no"
            f" {DRIVER_FUNCTIONS[addresses.index(0)]}: update it, or use objects"
        )
    return tuple(addresses)
