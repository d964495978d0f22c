"""Operators: a kernel as a real PyTorch operator, for torch.compile, CUDA graphs and everything that traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from precast.loader.contract.format.signature import Argument
from precast.loader.errors import ConfigError
from precast.loader.launch.kernel import Kernel
from precast.loader.locks import ForkSafeLock

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)
_DISPATCH = {"": "CUDA", "cuda": "CUDA", "cpu": "CPU"}
_SCALARS = {"int": "int", "uint": "int", "float": "float", "bfloat": "float", "bool": "bool"}


class Operators:
    """The kernels that were registered as operators, each once. PyTorch's own table of names is one for the process."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        # name -> schema, kernel, operator, torch.library.Library; a Library that is dropped removes its operators
        self._registered: dict[str, tuple[str, Kernel, Any, Any]] = {}

    def register(self, kernel: Kernel, name: str | None, outputs: Iterable[str] | None) -> Callable[..., Any]:
        """The operator of a kernel; the parameters are those of ``loader.torch_op``."""
        if not isinstance(kernel, Kernel):
            raise ConfigError(f"{kernel!r} is not a kernel: give what loader.get returned")
        name = name or f"precast::{kernel.op.replace('.', '_')}_{kernel.artifact.key[:12]}"
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"{name!r} is not the name of an operator: write it like 'mine::{kernel.op}'")
        schema = schema_of(kernel, outputs)
        with self._lock:
            if name not in self._registered:
                self._registered[name] = (schema, kernel, *_register(kernel, name, schema))
            schema_before, registered, operator, _ = self._registered[name]
        if (schema_before, registered.artifact.key) != (schema, kernel.artifact.key):
            raise ConfigError(
                f"the operator {name} is registered for another kernel, {registered!r}: choose another name"
            )
        return operator  # type: ignore[no-any-return]


def schema_of(kernel: Kernel, outputs: Iterable[str] | None = None) -> str:
    """The operator's arguments in PyTorch's own language, such as ``(Tensor x, Tensor(a0!) y, float f) -> ()``."""
    passed = kernel.signature.passed
    written = {a.name for a in passed if a.written} if outputs is None else set(outputs)
    tensors = {a.name for a in passed if a.kind == "tensor"}
    if not written or written - tensors:
        wrong = (
            f"{', '.join(sorted(written - tensors))} is not one of its tensors" if written else "its author names none"
        )
        choice = ", ".join(sorted(tensors))
        raise ConfigError(f"{kernel.op}: its outputs are not known, {wrong}: give outputs=[..] out of {choice}")
    return f"({', '.join(_declared(kernel, a, a.name in written, i) for i, a in enumerate(passed))}) -> ()"


def _declared(kernel: Kernel, argument: Argument, written: bool, position: int) -> str:
    name = argument.name
    if not name.isidentifier():
        raise ConfigError(
            f"{kernel.op}: {name!r} cannot name an operator's argument: rename it in @kernel(arguments=..)"
        )
    if argument.kind == "tensor":
        return f"Tensor(a{position}!) {name}" if written else f"Tensor {name}"
    if argument.kind == "none":
        return f"Tensor? {name}"
    if argument.kind == "shape" or (
        argument.kind == "tuple" and all(m.dtype.startswith("int") for m in argument.members)
    ):
        return f"SymInt[] {name}"
    scalar = argument.dtype or type(argument.value).__name__
    kind = _SCALARS.get(scalar.rstrip("0123456789"))
    if kind is None or argument.kind not in ("scalar", "const"):
        raise ConfigError(
            f"{kernel.op}: PyTorch has no type for {argument} ({argument.kind}): wrap the kernel in a function that"
            " makes this argument, and register that with torch.library"
        )
    return f"{'SymInt' if kind == 'int' else kind} {name}"


def _register(kernel: Kernel, name: str, schema: str) -> tuple[Any, Any]:
    import torch

    namespace, _, operator = name.partition("::")
    library = torch.library.Library(namespace, "FRAGMENT")
    # A kernel is compiled for certain strides: the compiler must pass the tensors as the program has them.
    strides = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    library.define(operator + schema, tags=(torch.Tag.pt2_compliant_tag, strides))
    devices = {_DISPATCH.get(a.device, "CUDA") for a in kernel.signature.passed if a.kind == "tensor"}
    for device in sorted(devices):
        library.impl(operator, lambda *args: kernel(*args), device)
    torch.library.register_fake(name, lambda *args: None, lib=library)
    return getattr(getattr(torch.ops, namespace), operator).default, library
