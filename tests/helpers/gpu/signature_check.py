"""A check of arguments against a signature: what native code must refuse, in the words of compiled objects."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from precast.loader.contract.abi.dlpack import DEVICES
from precast.loader.contract.abi.tvm_ffi_abi import limits
from precast.loader.contract.format.program.call_leaves import DrawnTensor
from precast.loader.contract.format.program.expression import wrapped
from precast.loader.contract.format.program.program_code import calling
from precast.loader.contract.format.signature import Argument, Dim, Signature
from precast.loader.errors import LaunchError

_INTEGERS = {f"{kind}int{bits}": (kind, bits) for kind in ("", "u") for bits in (8, 16, 32, 64)}
_REAL = {"float16": "e", "float32": "f", "float64": "d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A tensor as a caller passes it: its address and its layout."""

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: tuple[int, int]


@dataclass(slots=True)
class Bound:
    """The arguments of one call, checked. ``sizes`` are what a launch plan may use."""

    values: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    device: int = 0


def bind(op: str, signature: Signature, values: Sequence[Any]) -> Bound:
    """Check the arguments of a call.

    Parameters
    ----------
    op
        The kernel's name, for errors.
    signature
        What it takes.
    values
        A View for each tensor, and numbers; anything else is refused.
    """
    return _Binder(op, signature).bind(values)


class _Binder:
    def __init__(self, op: str, signature: Signature) -> None:
        self.op, self.signature = op, signature
        self.bound = Bound()
        self.seen: dict[str, tuple[int, str]] = {}  # each symbol's value, and where it occurred first
        self.first = ""  # the first tensor, whose device the others must be on

    @property
    def when(self) -> str:
        return calling(self.op, self.signature)

    def bind(self, values: Sequence[Any]) -> Bound:
        passed = self.signature.passed
        if len(values) != len(passed):
            raise TypeError(f"Expects {len(passed)} parameters{self.when}")
        for place, (argument, value) in enumerate(zip(passed, values, strict=True)):
            if argument.kind == "tensor":
                self.tensor(place, argument, value)
            elif argument.kind == "none":
                if value is not None:
                    raise self.wrong("Mismatched type", place, "None", TypeError)
            else:
                self.scalar(place, argument, value)
            self.bound.values[argument.name] = value
        return self.bound

    def wrong(self, what: str, place: int, expected: str, kind: type[Exception] = ValueError) -> Exception:
        return kind(f"{what} on argument #{place}{self.when}, expected {expected}")

    def tensor(self, place: int, argument: Argument, view: Any) -> None:
        name = argument.name
        if not isinstance(view, (View, DrawnTensor)):
            raise self.wrong("Mismatched type", place, "Tensor", TypeError)
        if argument.alignment > 1 and view.data % argument.alignment:
            raise self.wrong("Misaligned Tensor data", place, f"data alignment={argument.alignment} bytes")
        if self.first and view.device[1] != self.bound.device:
            raise self.wrong("Mismatched device index", place, f"to match {self.first}.device.index")
        if len(view.shape) != len(argument.shape):
            raise self.wrong("Mismatched Tensor", place, f"ndim={len(argument.shape)}")
        if view.device[0] != DEVICES.get(argument.device):
            raise self.wrong("Mismatched Tensor", place, f"device_type={argument.device}")
        if view.dtype != argument.dtype:
            raise self.wrong("Mismatched Tensor", place, f"dtype={argument.dtype}")
        if not self.first:
            self.first, self.bound.device = name, view.device[1]
        for i, (expected, found) in enumerate(zip(argument.shape, view.shape, strict=True)):
            self.extent(place, f"{name}.shape[{i}]", expected, found)
        for i, (expected, found) in enumerate(zip(argument.strides or (), view.strides, strict=True)):
            self.bound.sizes[f"{name}.strides[{i}]"] = found
            if view.shape[i] != 1:  # the stride of an extent of 1 is never used
                self.extent(place, f"{name}.strides[{i}]", expected, found)

    def extent(self, place: int, name: str, expected: Dim, found: int) -> None:
        self.bound.sizes[name] = found
        if isinstance(expected, int):
            if found != expected:
                raise self.wrong(f"Mismatched {name}", place, f"to be {expected}")
            return
        if expected in self.seen:
            value, where = self.seen[expected]
            if found != value:
                raise self.wrong(f"Mismatched {name}", place, f"to match {where}")
            return
        symbol = self.signature.symbols[expected]
        self.range(place, name, symbol.dtype, found)
        if found % symbol.divisibility:
            raise self.wrong(f"Invalid {name}", place, f"to be divisible by {symbol.divisibility}")
        self.seen[expected] = (found, name)

    def range(self, place: int, name: str, dtype: str, found: int) -> None:
        least, most = limits(dtype)
        if not least <= found <= most:
            raise self.wrong(f"Out of bound {name}".rstrip(), place, f"to be in {dtype} range [{least}, {most}]")

    def scalar(self, place: int, argument: Argument, value: Any) -> None:
        whole = isinstance(value, int) and -(2**63) <= value < 2**63
        if argument.dtype in _INTEGERS or argument.dtype == "bool":
            if not whole:
                raise self.wrong("Mismatched type", place, "int", TypeError)
            self.range(place, "value", argument.dtype, int(value))
            if value % argument.divisibility:
                raise self.wrong(f"Invalid {argument.name}", place, f"to be divisible by {argument.divisibility}")
            self.bound.sizes[argument.name] = int(bool(value) if argument.dtype == "bool" else value)
        elif not (whole or isinstance(value, float)):
            raise self.wrong("Mismatched type", place, "float", TypeError)


def leaves_of_call(signature: Signature, bound: Bound) -> dict[str, int]:
    """What the expressions of a host program may be made of in a checked call."""
    leaves = {**bound.sizes, **_addresses_and_bits(signature, list(bound.values.values()))}
    for name, value in bound.values.items():
        if isinstance(value, View):
            span = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.strides, strict=True))
            leaves[f"{name}.span"] = wrapped(span)
    return leaves


def _addresses_and_bits(signature: Signature, values: Sequence[Any]) -> dict[str, int]:
    """The addresses of tensors, and the bits of real numbers."""
    leaves = {}
    for argument, value in zip(signature.passed, values, strict=True):
        if argument.kind == "tensor":
            leaves[f"{argument.name}.data"] = wrapped(value.data)
        elif argument.kind == "scalar" and argument.dtype.startswith("float"):
            leaves[f"{argument.name}.bits"] = wrapped(int.from_bytes(_number(argument.dtype, value), "little"))
    return leaves


def within(limit: int, signature: Signature, values: Sequence[Any]) -> None:
    """Refuse a tensor with more elements than a host program is known for; 0 is no limit."""
    for argument, value in zip(signature.passed, values, strict=True):
        if limit and isinstance(value, View) and math.prod(value.shape) > limit:
            raise LaunchError(
                f"{argument.name} has more than {limit} elements, for which this cubin's launch is not known:"
                " call it in parts, or use the object"
            )


def _number(dtype: str, value: Any) -> bytes:
    """A real number in its type; one that is too large is infinite there, as in host code."""
    try:
        return struct.pack(f"<{_REAL[dtype]}", float(value))
    except OverflowError:
        return struct.pack(f"<{_REAL[dtype]}", float("inf") if value > 0 else float("-inf"))
