"""Kernels that native code calls: through the call path of their cache, or as the host program of a cubin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from precast.loader.format.artifact import Artifact
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.library import Library
from precast.loader.machine.machine import Machine

if TYPE_CHECKING:
    from precast.loader.launch.cubin import Launcher
    from precast.loader.launch.programs.native_program import NativeProgram


class ProgramKernel(Kernel):
    """A cubin whose host program is run by native code."""

    def __init__(
        self, op: str, artifact: Artifact, program: NativeProgram, machine: Callable[[], Machine], doc: str = ""
    ) -> None:
        super().__init__(op, artifact, self._through_tvm_ffi, machine, doc)
        self._program = program

    @property
    def launcher(self) -> Launcher | NativeProgram | None:
        return self._program

    def _through_tvm_ffi(self, *args: Any) -> Any:
        """Call with any kind of argument. tvm_ffi is imported here, since most programs never need it."""
        with IMPORT_LOCK:
            from precast.loader.launch.ffi import program_function
        self._launch = program_function(self._program.entry, self._program.address)
        return self._launch(*args)


class FastCalls(Kernel):
    """What a call path looks up by name in a kernel. The launcher type of that call path comes before such a kernel in
    the order of bases: its ``__call__`` packs tensors, numbers and None, and calls ``_slowly`` for any other argument.
    ``_slowly``, ``_failed``, ``_converted``, ``_arm``, ``_bind`` and ``_number_kind`` are the names."""

    _passing = 0
    _callpath: Library
    _arm: Callable[[int], None]
    _bind: Callable[[int], None]
    _slowly = Kernel.__call__

    def _failed(self, kind: str, message: str) -> BaseException:
        with IMPORT_LOCK:
            from precast.loader.launch.call_errors import exception_of
        return exception_of(kind, message, self.names)

    def _number_kind(self, value: object) -> int:
        with IMPORT_LOCK:
            from precast.loader.launch.number_kind import number_kind
        return number_kind(value)

    def _converted(self, *args: Any) -> Any:
        """The object that the entry returned, as tvm_ffi would return it for these arguments."""
        with IMPORT_LOCK:
            from precast.loader.launch.ffi import function_at
        return function_at(self._passing, self._callpath)(*args)


class FastObject(FastCalls):
    """An object that is called through the call path of its cache."""

    def __init__(
        self, op: str, artifact: Artifact, library: Library, machine: Callable[[], Machine], doc: str = ""
    ) -> None:
        super().__init__(op, artifact, self._through_tvm_ffi, machine, doc)
        self._library = library
        self._address = library.address(artifact.symbol)

    def _device_checked(self) -> None:
        self._arm(self._address)

    def _through_tvm_ffi(self, *args: Any) -> Any:
        """Call with any kind of argument. tvm_ffi is imported here, since most programs never need it."""
        self._launch = entry_of(self._library, self.artifact.symbol)
        return self._launch(*args)


class FastProgram(FastCalls, ProgramKernel):
    """A cubin that is called through the call path of its cache."""

    def _device_checked(self) -> None:
        self._bind(self._program.address)
        self._arm(self._program.entry)


def entry_of(library: Library, symbol: str) -> Callable[..., Any]:
    """The entry of a library as tvm_ffi calls it, which is imported for it."""
    with IMPORT_LOCK:
        from precast.loader.launch.ffi import entry
    return entry(library, symbol)
