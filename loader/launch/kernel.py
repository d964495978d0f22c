"""Kernels: callables that launch an artifact on the caller's current stream."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from precast.loader.errors import NoCudaDevice, PrecastError, WrongDevice
from precast.loader.format.artifact import Artifact
from precast.loader.format.config import Value, flow
from precast.loader.format.signature import Signature
from precast.loader.format.target import Target
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.fastcall import FastCall, fastcall_of
from precast.loader.launch.library import Library, load, runtime_for
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.machine import Machine, this_machine

if TYPE_CHECKING:
    from precast.loader.launch.cubin import Launcher


class _Doc:
    """What ``help`` shows: of the class its docstring, of a kernel what it takes."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __get__(self, kernel: Kernel | None, cls: type) -> str | None:
        return self.text if kernel is None else describe(kernel.op, kernel.artifact)


class Kernel:
    """A compiled variant, ready to be called with torch tensors or anything that speaks DLPack.

    A call launches on the current stream of the device that the tensors are on, and returns at once. Arguments go by
    position, or by the names the author gave them; by name, those that can only be None may be left out. ``obstacle``
    says without a call whether a call would launch.

    See also: ``precast.loader.get``, which makes kernels; ``kernel.signature``, what one takes.
    """

    __doc__ = _Doc(__doc__)
    op: str
    config: Mapping[str, Value]
    target: Target
    signature: Signature
    artifact: Artifact

    def __init__(
        self, op: str, artifact: Artifact, function: Callable[..., Any], machine: Callable[[], Machine]
    ) -> None:
        self.op = op
        self.config = MappingProxyType(dict(artifact.config))
        self.target = artifact.target
        self.signature = artifact.signature
        self.artifact = artifact
        self.names = tuple(argument.name for argument in artifact.signature.passed)
        self._function = function
        self._machine = machine
        self._launch: Callable[..., Any] = self._first
        self.__name__ = op

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch on the caller's current stream."""
        if named:
            return self(*self._ordered(args, named))
        try:
            return self._launch(*args)
        except Exception as error:
            with IMPORT_LOCK:
                from precast.loader.launch.call_errors import name_arguments
            name_arguments(error, self.names)
            raise

    @property
    def __signature__(self) -> inspect.Signature:
        """What tools show of it; one whose arguments have names that Python does not take shows ``*args``."""
        kinds = inspect.Parameter
        if not all(name.isidentifier() for name in self.names):
            return inspect.Signature([kinds("args", kinds.VAR_POSITIONAL)])
        return inspect.Signature([kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in self.names])

    @property
    def launcher(self) -> Launcher | None:
        """What launches a cubin; None for an object, whose host code launches it."""
        return cast("Launcher", self._function) if self.artifact.kind == "cubin" else None

    @property
    def obstacle(self) -> str | None:
        """Why a call would be refused on this machine, or None where it would launch."""
        error = self._refusal()
        return str(error) if error else None

    def __repr__(self) -> str:
        return f"<Kernel {self.op} {flow(self.config)} {self.target} {self.signature}>"

    def _first(self, *args: Any) -> Any:
        """The first call asks whether there is a device to launch on; the later ones go straight to the entry."""
        self.admit()
        return self(*args)

    def admit(self) -> None:
        """Ask now what the first call would ask: whether this machine's device runs the kernel."""
        error = self._refusal()
        if error is not None:
            raise error
        if self._launch == self._first:
            self._launch = self._function
            self._cleared()

    def _cleared(self) -> None:
        """The device is one that the kernel runs on."""

    def _refusal(self) -> PrecastError | None:
        machine = self._machine()
        if machine.capability is None:
            return NoCudaDevice(
                f"{self.op} for {self.target} is loaded, but there is no CUDA device to launch it on: {machine.absent}."
                " Run this on a machine with an NVIDIA GPU and driver"
            )
        if not self.target.runs_on(machine.capability):
            return WrongDevice(
                f"{self.op} is built for {self.target}, and {machine.device or 'the device'} is {machine.capability}:"
                " call loader.get without target= to get the variant for this device, or use one that it runs on"
            )
        return None

    def _ordered(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        taken = self.names[: len(args)]
        for name in named:
            if name in taken:
                raise TypeError(f"{self.op}() got {name!r} twice, by position and by name: give it once")
            if name not in self.names:
                raise TypeError(f"{self.op}() has no argument {name!r}: it takes {', '.join(self.names)}")
        left = self.signature.passed[len(args) :]
        named = {**{a.name: a.filling for a in left if a.vacant}, **named}
        missing = [a.name for a in left if a.name not in named]
        if missing:
            raise TypeError(f"{self.op}() misses {', '.join(missing)}: it takes {', '.join(self.names)}")
        return (*args, *(named[name] for name in self.names[len(args) :]))


class _FastKernel(Kernel):
    """A kernel that is called through the call path of its cache, whose launcher type stands before this one in the
    order of bases: its ``__call__`` packs arguments, and turns here for whatever is not plain."""

    _passing = 0
    _arm: Callable[[int], None]

    def __init__(self, op: str, artifact: Artifact, library: Library, machine: Callable[[], Machine]) -> None:
        super().__init__(op, artifact, self._through_tvm_ffi, machine)
        self._library = library
        self._address = library.address(artifact.symbol)

    _slowly = Kernel.__call__

    def _cleared(self) -> None:
        self._arm(self._address)

    def _through_tvm_ffi(self, *args: Any) -> Any:
        """Every kind of argument. Most programs pass plain ones only, so tvm_ffi is imported by the first other one."""
        self._launch = _entry(self._library, self.artifact.symbol)
        return self._launch(*args)

    def _failed(self, kind: str, message: str) -> BaseException:
        with IMPORT_LOCK:
            from precast.loader.launch.call_errors import exception_of
        return exception_of(kind, message, self.names)

    def _converted(self, *args: Any) -> Any:
        """The object that the entry returned, as tvm_ffi would return it for these arguments."""
        with IMPORT_LOCK:
            from precast.loader.launch.ffi import function_at
        return function_at(self._passing, self._library)(*args)


@functools.cache
def _kind(path: FastCall) -> type[_FastKernel]:
    """Kernels that are called through this call path."""
    body = {"_passing": path.passing, "__doc__": vars(Kernel)["__doc__"], "__module__": __name__}
    return type("Kernel", (path.launcher, _FastKernel), body)


def open_kernel(cache: Cache, op: str, artifact: Artifact, device: object = None) -> Kernel:
    """Load an artifact of a cache and make a kernel of it.

    Parameters
    ----------
    cache, op, artifact
        What to open.
    device
        The device that the kernel is for, asked about at its first call; None for the current one.
    """
    if artifact.kind == "cubin":
        with IMPORT_LOCK:
            from precast.loader.launch.cubin import open_cubin
        return Kernel(op, artifact, open_cubin(cache, op, artifact), lambda: this_machine(device))
    library = load(cache, artifact)
    assert artifact.host is not None  # what can be loaded has a host
    path = fastcall_of(cache, runtime_for(cache, artifact.host.arch))
    if path is None:
        return Kernel(op, artifact, _entry(library, artifact.symbol), lambda: this_machine(device))
    return _kind(path)(op, artifact, library, lambda: this_machine(device))


def _entry(library: Library, symbol: str) -> Callable[..., Any]:
    with IMPORT_LOCK:
        from precast.loader.launch.ffi import entry
    return entry(library, symbol)


def describe(op: str, artifact: Artifact) -> str:
    """What ``help`` shows of a kernel."""
    lines = [f"{op} {flow(artifact.config)}, compiled for {artifact.target}.", "", "Arguments, in call order:"]
    lines += [f"    {argument}" for argument in artifact.signature.passed]
    symbols = artifact.signature.symbols
    if symbols:
        lines += ["", "where"]
        lines += [
            f"    {name} is an {s.dtype}" + (f" that {s.divisibility} divides" if s.divisibility > 1 else "")
            for name, s in sorted(symbols.items())
        ]
    return "\n".join(lines)
