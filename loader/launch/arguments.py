"""Arguments: checked against a signature as strictly as an object's host code does it, and packed for device code.

The messages are those of compiled objects, so that a caller sees the same error from every kind of artifact.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from precast.loader.errors import FormatError
from precast.loader.fast_start.values import Immutable
from precast.loader.format.signature import Argument, Dim, Signature

DEVICES = {"cpu": 1, "cuda": 2}
_INTEGERS = {f"{kind}int{bits}": (kind, bits) for kind in ("", "u") for bits in (8, 16, 32, 64)}
_FORMATS = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d", "bool": "?",
}  # fmt: skip


_ADDRESS = struct.Struct("<Q")
_ROOM, _TAIL = 16, 7  # a parameter begins at a multiple of this; so many bytes after it may be read, as its padding


class View(Immutable, kw_only=True):
    """A tensor as a caller passes it: its address and its layout."""

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: tuple[int, int]

    @property
    def form(self) -> tuple[Any, ...]:
        """All but the address."""
        return self.shape, self.strides, self.dtype, self.device


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
        return f" when calling: `{self.op}({', '.join(map(_declared, self.signature.passed))})`"

    def bind(self, values: Sequence[Any]) -> Bound:
        passed = self.signature.passed
        if len(values) != len(passed):
            raise TypeError(f"Expects {len(passed)} parameters{self.when}")
        for place, (argument, value) in enumerate(zip(passed, values, strict=True)):
            self.tensor(place, argument, value) if argument.kind == "tensor" else self.scalar(place, argument, value)
            self.bound.values[argument.name] = value
        return self.bound

    def wrong(self, what: str, place: int, expected: str, kind: type[Exception] = ValueError) -> Exception:
        return kind(f"{what} on argument #{place}{self.when}, expected {expected}")

    def tensor(self, place: int, argument: Argument, view: Any) -> None:
        name = argument.name
        if not isinstance(view, View):
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
            self.bound.sizes[argument.name] = int(value)
        elif not (whole or isinstance(value, float)):
            raise self.wrong("Mismatched type", place, "float", TypeError)


def _declared(argument: Argument) -> str:
    if argument.kind == "tensor":
        return f"{argument.name}: Tensor([{', '.join(map(str, argument.shape))}], {argument.dtype})"
    return f"{argument.name}: {argument.dtype}"


def limits(dtype: str) -> tuple[int, int]:
    """The least and the most that an integer type takes from TVM-FFI's 64-bit numbers.

    >>> limits("int8"), limits("bool")
    ((-128, 127), (-128, 127))
    """
    kind, bits = _INTEGERS.get(dtype, ("", 8))
    if kind == "u" and bits < 64:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def packable(signature: Signature, parameters: Iterable[str]) -> None:
    """Refuse parameters whose layout is not known."""
    arguments = {a.name: a for a in signature.passed}
    for name in parameters:
        argument = arguments[name]
        if argument.kind == "tensor" and argument.strides is None:
            raise FormatError(f"{name}: its strides are not in the signature, so how it is packed is not known", "plan")
        if argument.kind == "scalar" and argument.dtype not in _FORMATS:
            raise FormatError(f"{name}: how {argument.dtype} is packed is not known", "plan")


def lengths(signature: Signature, parameters: Iterable[str]) -> tuple[int, ...]:
    """How many bytes each parameter is packed to."""
    arguments = {a.name: a for a in signature.passed}
    empty = {a.name: _empty(a) for a in arguments.values()}
    return tuple(len(_packed(signature, arguments[name], empty[name])) for name in parameters)


def _empty(argument: Argument) -> Any:
    none = (0,) * len(argument.shape)
    view = View(data=0, shape=none, strides=none, dtype=argument.dtype, device=(0, 0))
    return view if argument.kind == "tensor" else 0


def pack(signature: Signature, parameters: Iterable[str], bound: Bound) -> tuple[bytes, ...]:
    """What device code takes: for a tensor its address, its shape and its strides, as far as these were left open; for
    a number the number. Each member stands at a multiple of its own size."""
    arguments = {a.name: a for a in signature.passed}
    return tuple(_packed(signature, arguments[name], bound.values[name]) for name in parameters)


class Packing(Immutable, kw_only=True):
    """Parameters one after the other, packed but for what calls of one form differ in: addresses and real numbers.

    ``offsets`` are where each parameter begins. ``gaps`` are what each call fills in: offset, the argument's position,
    and its dtype if it is a number. ``aligned`` are the positions of addresses that must be multiples, and of what.
    """

    template: bytes
    offsets: tuple[int, ...]
    gaps: tuple[tuple[int, int, str], ...]
    aligned: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, signature: Signature, parameters: Iterable[str], bound: Bound) -> Packing:
        """How a checked call is packed, and with it every call of the same form."""
        places = {argument.name: place for place, argument in enumerate(signature.passed)}
        template, offsets, gaps = b"", [], []
        for name, part in zip(parameters, pack(signature, parameters, bound), strict=True):
            argument = signature.passed[places[name]]
            offsets.append(len(template))
            if argument.kind == "tensor":
                gaps.append((len(template), places[name], ""))
            elif isinstance(bound.values[name], float):
                gaps.append((len(template), places[name], argument.dtype))
            template += part + bytes(-(len(part) + _TAIL) % _ROOM + _TAIL)
        aligned = [(places[a.name], a.alignment) for a in signature.passed if a.kind == "tensor" and a.alignment > 1]
        return cls(template=template, offsets=tuple(offsets), gaps=tuple(gaps), aligned=tuple(aligned))

    def is_aligned(self, values: Sequence[Any]) -> bool:
        """Whether the addresses of a call are aligned as required."""
        return not any(values[place].data % alignment for place, alignment in self.aligned)

    def filled(self, values: Sequence[Any]) -> bytearray:
        """The parameters of a call of this form."""
        data = bytearray(self.template)
        for offset, place, dtype in self.gaps:
            if dtype:
                number = _number(dtype, values[place])
                data[offset : offset + len(number)] = number
            else:
                _ADDRESS.pack_into(data, offset, values[place].data)
        return data


def form_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """What of a call's arguments decides all but addresses and real numbers. Calls of one form are right or wrong
    together, but for their alignment.

    >>> form_of([1, 1.5]) == form_of([1, 2.5]), form_of([1, 1.5]) == form_of([2, 1.5])
    (True, False)
    """
    return tuple([v.form if type(v) is View else v if isinstance(v, int) else type(v) for v in values])


def _packed(signature: Signature, argument: Argument, value: Any) -> bytes:
    if argument.kind == "scalar":
        return _number(argument.dtype, value)
    data = struct.pack("<Q", value.data)
    extents = (*zip(argument.shape, value.shape, strict=True), *zip(argument.strides or (), value.strides, strict=True))
    for expected, found in extents:
        if isinstance(expected, str):
            code = _FORMATS[signature.symbols[expected].dtype]
            size = struct.calcsize(code)
            data += bytes(-len(data) % size) + struct.pack(f"<{code}", found)
    return data


def _number(dtype: str, value: Any) -> bytes:
    code = _FORMATS[dtype]
    if code in "fde":
        try:
            return struct.pack(f"<{code}", float(value))
        except OverflowError:  # too large for the type: infinite there, as in host code
            return struct.pack(f"<{code}", float("inf") if value > 0 else float("-inf"))
    return struct.pack(f"<{code}", bool(value) if dtype == "bool" else value)
