"""Kernels that the call path calls: objects, and the host programs of cubins. Import this only where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.artifact import Artifact
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.library import Library
from precast.loader.locks import IMPORT_LOCK
from precast.loader.machine.machine import Machine
from precast.loader.native._callpath import PROGRAM_ENTRY, RESULT_ENTRY, Launcher

if TYPE_CHECKING:
    from precast.loader.launch.native_program import NativeProgram


class NativeKernel(Launcher, Kernel):
    """A kernel whose ``__call__`` is the launcher's: it packs tensors, numbers, None and tuples of these, and calls
    ``_slowly`` for any other argument. The C code looks ``_slowly``, ``_failed``, ``_converted`` and ``_number_kind``
    up by name."""

    __doc__ = vars(Kernel)["__doc__"]
    _slowly = Kernel.__call__

    def _failed(self, kind: str, message: str) -> BaseException:
        with IMPORT_LOCK:
            from precast.loader.launch.call_errors import exception_of
        return exception_of(kind, message, self.names)

    def _number_kind(self, value: object) -> int:
        with IMPORT_LOCK:
            from precast.loader.launch.number_kind import number_kind
        return number_kind(value)

    def _through_tvm_ffi(self, *args: Any) -> Any:
        """Call with any kind of argument. tvm_ffi is imported here, since most programs never need it."""
        self._launch = self.tvm_ffi_function
        return self._launch(*args)

    def _converted(self, *args: Any) -> Any:
        """The object that the entry returned, as tvm_ffi would return it for these arguments."""
        with IMPORT_LOCK:
            from precast.loader.launch.ffi import function_at
        return function_at(RESULT_ENTRY)(*args)


class ObjectKernel(NativeKernel):
    """An object, called through its entry."""

    __doc__ = vars(Kernel)["__doc__"]

    def __init__(
        self, op: str, artifact: Artifact, library: Library, machine: Callable[[], Machine], doc: str = ""
    ) -> None:
        super().__init__(op, artifact, self._through_tvm_ffi, machine, doc)
        self._library = library
        self._address = library.address(artifact.symbol)

    def _device_checked(self) -> None:
        self._arm(self._address, 0, self._library.allocates)

    @property
    def tvm_ffi_function(self) -> Callable[..., Any]:
        with IMPORT_LOCK:
            from precast.loader.launch.ffi import entry
        return entry(self._library, self.artifact.symbol)


class ProgramKernel(NativeKernel):
    """A cubin, launched by its host program. ``direct`` is False where every call goes through tvm_ffi."""

    __doc__ = vars(Kernel)["__doc__"]

    def __init__(
        self,
        op: str,
        artifact: Artifact,
        program: NativeProgram,
        machine: Callable[[], Machine],
        doc: str = "",
        *,
        direct: bool = True,
    ) -> None:
        super().__init__(op, artifact, self._through_tvm_ffi, machine, doc)
        self._program, self._direct = program, direct

    @property
    def launcher(self) -> NativeProgram:
        return self._program

    def _device_checked(self) -> None:
        if self._direct:
            self._arm(PROGRAM_ENTRY, self._program.address)

    @property
    def tvm_ffi_function(self) -> Callable[..., Any]:
        with IMPORT_LOCK:
            from precast.loader.launch.ffi import program_function
        return program_function(PROGRAM_ENTRY, self._program.address)
