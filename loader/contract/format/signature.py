"""Signatures: the arguments of a kernel in call order, as the compiler reports them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import ConfigError, FormatError
from precast.loader.locks import IMPORT_LOCK

KINDS = ("tensor", "scalar", "pointer", "stream", "env_stream", "shape", "tuple", "none", "const")
Dim = int | str
_DEPTH = 4


class Symbol(Immutable, kw_only=True):
    """A number that is known at the call: its integer type, and a number that divides it."""

    dtype: str
    divisibility: int = 1

    def to_json(self) -> dict[str, Any]:
        return {"divisibility": self.divisibility, "dtype": self.dtype}

    @classmethod
    def parse(cls, value: object) -> Symbol:
        data = fields.known(fields.as_object(value), ("dtype", "divisibility"))
        return cls(dtype=fields.get(data, "dtype", str), divisibility=fields.count(data, "divisibility", most=2**31))


class Argument(Immutable, kw_only=True):
    """One argument. ``shape`` and ``strides`` hold numbers, or names of symbols that the signature defines.

    An ``env_stream`` is never passed: the loader's environment supplies the caller's current stream. ``written`` is
    true for a tensor that the author declares as an output.
    """

    name: str
    kind: str
    dtype: str = ""
    shape: tuple[Dim, ...] = ()
    strides: tuple[Dim, ...] | None = None
    alignment: int = 0
    divisibility: int = 1
    device: str = ""
    value: str | int | float | bool | None = None
    members: tuple[Argument, ...] = ()
    written: bool = False

    @property
    def passed(self) -> bool:
        """Whether the caller passes it."""
        return self.kind != "env_stream"

    @property
    def always_none(self) -> bool:
        """Whether nothing can be passed for it but ``none_value``."""
        return self.kind == "none" or (self.kind == "tuple" and all(m.always_none for m in self.members))

    @property
    def none_value(self) -> tuple[Any, ...] | None:
        """The value that is passed for an argument that is always None."""
        return tuple(m.none_value for m in self.members) if self.kind == "tuple" else None

    def __str__(self) -> str:
        if self.kind == "tensor":
            return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
        if self.kind in ("tuple", "shape"):
            inner = ", ".join(map(str, self.members or self.shape))
            return f"{self.name}: ({inner})"
        if self.kind in ("none", "const"):
            return f"{self.name}: {self.value!r}"
        return f"{self.name}: {self.dtype or self.kind}"

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.dtype:
            data["dtype"] = self.dtype
        if self.kind in ("tensor", "shape"):
            data["shape"] = list(self.shape)
        if self.strides is not None:
            data["strides"] = list(self.strides)
        if self.alignment:
            data["alignment"] = self.alignment
        if self.divisibility != 1:
            data["divisibility"] = self.divisibility
        if self.device:
            data["device"] = self.device
        if self.kind == "const":
            data["value"] = self.value
        if self.members:
            data["members"] = [m.to_json() for m in self.members]
        if self.written:
            data["written"] = True
        return data

    @classmethod
    def parse(cls, value: object, depth: int = 0) -> Argument:
        if depth > _DEPTH:
            raise FormatError(f"arguments nest deeper than {_DEPTH} levels")
        names = (
            "name", "kind", "dtype", "shape", "strides", "alignment", "divisibility", "device", "value", "members",
            "written",
        )  # fmt: skip
        data = fields.known(fields.as_object(value), names)
        constant = data.get("value")
        if not (constant is None or isinstance(constant, (str, int, float, bool))):
            raise FormatError("expected a plain value", "value")
        return cls(
            name=fields.get(data, "name", str),
            kind=fields.one_of(data, "kind", KINDS),
            dtype=fields.get(data, "dtype", str, ""),
            shape=fields.items(data, "shape", _dim, most=32, default=()),
            strides=fields.items(data, "strides", _dim, most=32, default=None),
            alignment=fields.count(data, "alignment", most=2**20, default=0),
            divisibility=fields.count(data, "divisibility", most=2**31, default=1),
            device=fields.get(data, "device", str, ""),
            value=constant,
            members=fields.items(data, "members", lambda v: cls.parse(v, depth + 1), most=64, default=()),
            written=fields.get(data, "written", bool, False),
        )


def _dim(value: object) -> Dim:
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str) and len(value) <= 64:
        return value
    raise FormatError("expected a 64-bit number or the name of a symbol")


class Signature(Immutable, kw_only=True):
    """The arguments of a kernel in call order, and the symbols that their shapes share.

    >>> n = Symbol(dtype="int32")
    >>> x = Argument(name="x", kind="tensor", dtype="float32", shape=("n",))
    >>> print(Signature(arguments=(x,), symbols={"n": n}))
    (x: float32[n])
    """

    arguments: tuple[Argument, ...]
    symbols: dict[str, Symbol] = field(default_factory=dict)

    @property
    def passed(self) -> tuple[Argument, ...]:
        """The arguments a caller passes, in order."""
        return tuple(a for a in self.arguments if a.passed)

    def renamed(self, names: Mapping[str, str]) -> Signature:
        """The same signature with other names for its arguments; those that ``names`` lacks keep theirs.

        >>> print(Signature(arguments=(Argument(name="mX", kind="scalar", dtype="int32"),)).renamed({"mX": "x"}))
        (x: int32)
        """
        new_names = [names.get(a.name, a.name) for a in self.arguments]
        for name in new_names:
            if new_names.count(name) > 1:
                raise ConfigError(f"two arguments would be called {name!r}: give each a name of its own")
        return replace(
            self, arguments=tuple(replace(a, name=n) for a, n in zip(self.arguments, new_names, strict=True))
        )

    def writing(self, names: Iterable[str]) -> Signature:
        """The same signature, with these tensors declared to be outputs.

        >>> x = Argument(name="x", kind="tensor", dtype="float32", shape=(8,))
        >>> Signature(arguments=(x,)).writing(["x"]).arguments[0].written
        True
        """
        outputs = frozenset(names)
        marked = (replace(a, written=a.kind == "tensor" and a.name in outputs) for a in self.arguments)
        return replace(self, arguments=tuple(marked))

    def check_shapes(self) -> None:
        """Raise a FormatError for a tensor with an undefined symbol, or with another number of strides than sizes.

        Host code checks the arguments of an object; this signature checks those of a cubin.
        """
        for argument in self.passed:
            dims = (*argument.shape, *(argument.strides or ())) if argument.kind == "tensor" else ()
            if not all(dim in self.symbols for dim in dims if isinstance(dim, str)):
                raise FormatError(f"{argument.name!r} has a symbol that the signature does not define", "signature")
            if dims and argument.strides is not None and len(argument.strides) != len(argument.shape):
                raise FormatError(f"{argument.name!r} has another number of strides than sizes", "signature")

    def __str__(self) -> str:
        with IMPORT_LOCK:
            from precast.loader.terminal_text import on_one_line
        return on_one_line(f"({', '.join(map(str, self.passed))})")

    def to_json(self) -> dict[str, Any]:
        return {
            "arguments": [a.to_json() for a in self.arguments],
            "symbols": {name: s.to_json() for name, s in sorted(self.symbols.items())},
        }

    @classmethod
    def parse(cls, value: object) -> Signature:
        data = fields.known(fields.as_object(value), ("arguments", "symbols"))
        return cls(
            arguments=fields.items(data, "arguments", Argument.parse, most=256),
            symbols=fields.table(data, "symbols", Symbol.parse, most=512),
        )


def outputs_of(signature: object) -> frozenset[str]:
    """The names of the tensors that a kernel writes, by its signature, raw or parsed; of an invalid one, none.

    >>> sorted(outputs_of({"arguments": [{"name": "lse", "kind": "tensor", "written": True}, {"name": "q"}]}))
    ['lse']
    """
    if isinstance(signature, Signature):
        return frozenset(argument.name for argument in signature.arguments if argument.written)
    rows = signature.get("arguments") if isinstance(signature, Mapping) else None
    arguments = [each for each in rows if isinstance(each, Mapping)] if isinstance(rows, list) else []
    return frozenset(str(each.get("name")) for each in arguments if each.get("written") is True)
