"""The kernel opener: from an artifact of a cache to a kernel, by the quickest way that this host has."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from precast.loader.fork_safe import OnceTable
from precast.loader.format.artifact import Artifact, Blob
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.fast_kernel import FastCalls, FastObject, FastProgram, ProgramKernel, entry_of
from precast.loader.launch.fastcall import open_callpath, open_fastcall, unsupported
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.library import Libraries
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache

if TYPE_CHECKING:
    from precast.loader.launch.programs.native_program import NativeProgram


class KernelOpener:
    """Opens artifacts of caches as kernels. Each library and each call path is opened once.

    Parameters
    ----------
    machine
        Describes the machine with a device; a kernel asks it at its first call.
    libraries
        What opens libraries.
    """

    def __init__(self, machine: Callable[[object], Machine], libraries: Libraries | None = None) -> None:
        self.machine = machine
        self.libraries = libraries or Libraries()
        self._types = OnceTable()
        self._callpaths = OnceTable()
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
        """A library, called through the call path of its cache where this process can, else through tvm_ffi."""
        library = self.libraries.load(cache, artifact)
        assert artifact.host is not None  # what can be loaded has a host
        fast_kernel = self._type_for(cache, cache.index.fastcall(artifact.host.arch), FastObject)
        if fast_kernel is None:
            return Kernel(op, artifact, entry_of(library, artifact.symbol), machine, doc)
        return cast(Kernel, fast_kernel(op, artifact, library, machine, doc))

    def _open_cubin(
        self, cache: Cache, op: str, artifact: Artifact, machine: Callable[[], Machine], doc: str
    ) -> Kernel:
        """A cubin, launched by native code where the cache has some for this host, else through cuda-python."""
        program = self._program(cache, op, artifact)
        if program is None:
            with IMPORT_LOCK:
                from precast.loader.launch.cubin import open_cubin
            return Kernel(op, artifact, open_cubin(cache, op, artifact), machine, doc)
        fast_kernel = self._type_for(cache, cache.index.fastcall(os.uname().machine), FastProgram)
        return cast(Kernel, (fast_kernel or ProgramKernel)(op, artifact, program, machine, doc))

    def _program(self, cache: Cache, op: str, artifact: Artifact) -> NativeProgram | None:
        blob = cache.index.fastcall(os.uname().machine)
        if blob is None:
            return None
        with IMPORT_LOCK:
            from precast.loader.launch.programs.native_program import open_native

        def make() -> NativeProgram | None:
            library = self._callpaths.get(blob.sha256, lambda: open_callpath(cache, blob))
            return open_native(library, cache, op, artifact) if library else None

        return self._programs.get(artifact.key, make)

    def _type_for(self, cache: Cache, blob: Blob | None, kind: type[FastCalls]) -> type[Any] | None:
        """The type of kernels that are called through the call path of a cache; None where tvm_ffi calls them."""
        if blob is None or unsupported() is not None:
            return None

        def make() -> type[Any] | None:
            found = open_fastcall(cache, blob)
            if found is None:
                return None
            body = {"_passing": found.passing, "_callpath": found.library, "__module__": Kernel.__module__}
            return type("Kernel", (found.launcher, kind), {**body, "__doc__": vars(Kernel)["__doc__"]})

        return self._types.get((blob.sha256, kind), make)
