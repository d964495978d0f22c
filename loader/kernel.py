"""Kernels: callables that launch an artifact on the caller's current stream."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from precast.loader.artifact import Artifact
from precast.loader.cache import Cache
from precast.loader.config import Value
from precast.loader.errors import LoadError, NoCudaDevice, PrecastError, WrongDevice
from precast.loader.failure import exception_of, name_arguments
from precast.loader.fastcall import FastCall, fastcall_of
from precast.loader.library import Library, load, runtime_for
from precast.loader.machine import Machine, this_machine
from precast.loader.signature import Signature
from precast.loader.target import Target
from precast.loader.trace import flow

_DISABLE = "TVM_FFI_DISABLE_TORCH_C_DLPACK"
_importing = threading.Lock()


class Kernel:
    """A compiled variant, ready to be called with torch tensors or anything that speaks DLPack.

    A call launches on the current stream of the device that the tensors are on, and returns at once. Arguments go by
    position, or by the names the author gave them; by name, those that can only be None may be left out. ``obstacle``
    says without a call whether a call would launch.

    See also: ``precast.loader.get``, which makes kernels; ``kernel.signature``, what one takes.
    """

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
        self.__doc__ = describe(op, artifact)
        self.__name__ = op
        if all(name.isidentifier() for name in self.names):
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in self.names])

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch on the caller's current stream."""
        if named:
            return self(*self._ordered(args, named))
        try:
            return self._launch(*args)
        except Exception as error:
            name_arguments(error, self.names)
            raise

    @property
    def obstacle(self) -> str | None:
        """Why a call would be refused on this machine, or None where it would launch."""
        error = self._refusal()
        return str(error) if error else None

    def __repr__(self) -> str:
        return f"<Kernel {self.op} {flow(self.config)} {self.target} {self.signature}>"

    def _first(self, *args: Any) -> Any:
        """The first call asks whether there is a device to launch on; the later ones go straight to the entry."""
        error = self._refusal()
        if error is not None:
            raise error
        self._launch = self._function
        self._cleared()
        return self(*args)

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
        """tvm_ffi knows every kind of argument; few programs need it, so it is imported by the first that does."""
        self._launch = entry(self._library, self.artifact.symbol)
        return self._launch(*args)

    def _failed(self, kind: str, message: str) -> BaseException:
        return exception_of(kind, message, self.names)

    def _converted(self, *args: Any) -> Any:
        """The object that the entry returned, as tvm_ffi would return it for these arguments."""
        return function_at(self._passing, self._library)(*args)


@functools.cache
def _kind(path: FastCall) -> type[_FastKernel]:
    """Kernels that are called through this call path."""
    body = {"_passing": path.passing, "__doc__": Kernel.__doc__, "__module__": __name__}
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
    library = load(cache, artifact)
    assert artifact.host is not None  # what can be loaded has a host
    path = fastcall_of(cache, runtime_for(cache, artifact.host.arch))
    if path is None:
        return Kernel(op, artifact, entry(library, artifact.symbol), lambda: this_machine(device))
    return _kind(path)(op, artifact, library, lambda: this_machine(device))


def entry(library: Library, symbol: str) -> Callable[..., Any]:
    """The entry of a library as a Python function; it keeps the library alive."""
    return function_at(library.address(symbol), library)


def function_at(address: int, library: Library) -> Callable[..., Any]:
    """The TVM-FFI entry at an address, as tvm_ffi calls it."""
    function: Callable[..., Any] = import_tvm_ffi().Function.__from_extern_c__(address, keep_alive_object=library)
    return function


def import_tvm_ffi() -> Any:
    """Import tvm_ffi, which loads torch where that is installed.

    Where torch has its own DLPack exchange, tvm_ffi is kept from looking for an add-on with the same service: that
    search asks whether CUDA is available, and takes a fifth of a second where CUDA is not up yet.
    """
    if "tvm_ffi" in sys.modules:
        return sys.modules["tvm_ffi"]
    with _importing:
        before = os.environ.get(_DISABLE)
        if before is None and _torch_exchanges():
            os.environ[_DISABLE] = "1"
        try:
            import tvm_ffi
        except ImportError as error:
            raise LoadError(f"tvm_ffi cannot be imported ({error}): pip install apache-tvm-ffi") from error
        finally:
            if before is None:
                os.environ.pop(_DISABLE, None)
    return tvm_ffi


def _torch_exchanges() -> bool:
    """Whether torch, which tvm_ffi would import anyway, needs no add-on for tensors and streams."""
    try:
        import torch
    except ImportError:
        return False
    return hasattr(torch.Tensor, "__dlpack_c_exchange_api__") and hasattr(torch.cuda.Stream, "__cuda_stream__")


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
