"""Kernels: callables that launch an artifact on the caller's current stream."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Value, config_text
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Target
from precast.loader.errors import NoCudaDevice, PrecastError, WrongDevice
from precast.loader.locks import IMPORT_LOCK
from precast.loader.machine.machine import Machine

if TYPE_CHECKING:
    from precast.loader.launch.native_program import NativeProgram


class _Doc:
    """What ``help`` shows: of the class its docstring, of a kernel its author's docstring and what it takes."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __get__(self, kernel: Kernel | None, cls: type) -> str | None:
        if kernel is None:
            return self.text
        with IMPORT_LOCK:
            from precast.loader.contract.format.description import describe
        return describe(kernel.op, kernel.artifact, kernel.doc)


class Kernel:
    """A compiled variant, ready to be called with torch tensors or any other tensor with DLPack.

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
    doc: str
    cache: str = ""
    """The name of the cache it is from."""

    def __init__(
        self,
        op: str,
        artifact: Artifact,
        function: Callable[..., Any],
        machine: Callable[[], Machine],
        doc: str = "",
    ) -> None:
        self.op = op
        self.doc = doc
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
        """What tools show of it: ``*args`` where an argument's name is not a Python identifier."""
        kinds = inspect.Parameter
        if not all(name.isidentifier() for name in self.names):
            return inspect.Signature([kinds("args", kinds.VAR_POSITIONAL)])
        return inspect.Signature([kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in self.names])

    @property
    def launcher(self) -> NativeProgram | None:
        """The host program that launches a cubin; None for an object, whose own host code launches it."""
        return None

    @property
    def tvm_ffi_function(self) -> Callable[..., Any]:
        """The entry as tvm_ffi calls it, which checks no device."""
        return self._function

    @property
    def obstacle(self) -> str | None:
        """Why a call would be refused on this machine, or None where it would launch."""
        error = self._refusal()
        return str(error) if error else None

    def __repr__(self) -> str:
        return f"<Kernel {self.op} {config_text(self.config)} {self.target} {self.signature}>"

    def _first(self, *args: Any) -> Any:
        """The first call checks that there is a device to launch on; the later ones go straight to the entry."""
        self.check_device()
        return self(*args)

    def check_device(self) -> None:
        """Check now what the first call would check: whether this machine's device runs the kernel."""
        error = self._refusal()
        if error is not None:
            raise error
        if self._launch == self._first:
            self._launch = self._function
            self._device_checked()

    def _device_checked(self) -> None:
        """Called once, when a device was found on which the kernel runs."""

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
        if self.artifact.assumes is not None:
            with IMPORT_LOCK:
                from precast.loader.resolve.assumptions import unmet
            wrong = unmet(self.artifact, machine)
            if wrong:
                return WrongDevice(
                    f"{self.op} is {wrong}; or call loader.get without target=, where it is built already"
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
        named = {**{a.name: a.none_value for a in left if a.always_none}, **named}
        missing = [a.name for a in left if a.name not in named]
        if missing:
            also = [a.name for a in left if a.name in missing and a.written and self.config.get(a.name) is True]
            why = f" (this variant writes {', '.join(also)}, too, which others of the op do not)" if also else ""
            raise TypeError(f"{self.op}() misses {', '.join(missing)}{why}: it takes {', '.join(self.names)}")
        return (*args, *(named[name] for name in self.names[len(args) :]))
