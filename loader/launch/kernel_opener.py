"""The kernel opener: from an artifact of a cache to a kernel.

=================  =========================================================================
an object          called through the call path; without that, through tvm_ffi
a cubin            its host program, run by the call path; without that, a LoadError
=================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Callable

from precast.loader.contract.format.artifact import Artifact
from precast.loader.errors import LoadError
from precast.loader.launch.callpath import is_turned_off, missing
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.library import Libraries
from precast.loader.locks import IMPORT_LOCK, OnceTable
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache


class KernelOpener:
    """Opens artifacts of caches as kernels. Each library and each host program is opened once.

    Parameters
    ----------
    machine
        Describes the machine with a device; a kernel calls it at its first call.
    libraries
        What opens libraries.
    """

    def __init__(self, machine: Callable[[object], Machine], libraries: Libraries | None = None) -> None:
        self.machine = machine
        self.libraries = libraries or Libraries()
        self._programs = OnceTable()

    def open(self, cache: Cache, op: str, artifact: Artifact, device: object = None) -> Kernel:
        """Load an artifact of a cache and make a kernel of it.

        Parameters
        ----------
        cache, op, artifact
            What to open.
        device
            The device that the kernel is for; None for the current one at its first call.
        """
        doc, machine = cache.op(op).doc, lambda: self.machine(device)
        opener = self._open_cubin if artifact.kind == "cubin" else self._open_object
        kernel = opener(cache, op, artifact, machine, doc)
        kernel.cache = cache.name
        return kernel

    def _open_object(
        self, cache: Cache, op: str, artifact: Artifact, machine: Callable[[], Machine], doc: str
    ) -> Kernel:
        library = self.libraries.load(cache, artifact)
        if is_turned_off() or missing():
            with IMPORT_LOCK:
                from precast.loader.launch.ffi import entry
            return Kernel(op, artifact, entry(library, artifact.symbol), machine, doc)
        with IMPORT_LOCK:
            from precast.loader.launch.native_kernel import ObjectKernel
        return ObjectKernel(op, artifact, library, machine, doc)

    def _open_cubin(
        self, cache: Cache, op: str, artifact: Artifact, machine: Callable[[], Machine], doc: str
    ) -> Kernel:
        reason = missing()
        if reason:
            raise LoadError(
                f"{artifact.key[:12]} is a cubin, which native code launches, and {reason}: install a wheel of"
                " precast-loader with native code for this host, or build the cache with objects"
            )
        with IMPORT_LOCK:
            from precast.loader.launch.native_kernel import ProgramKernel
            from precast.loader.launch.native_program import open_native
        program = self._programs.get(artifact.key, lambda: open_native(cache, op, artifact))
        return ProgramKernel(op, artifact, program, machine, doc, direct=not is_turned_off())
