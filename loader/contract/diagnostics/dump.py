"""Dumps: one call of a kernel on disk, as a header of JSON and a file of raw bytes for each block of memory.

A reader trusts nothing in it: the header holds no file names, and every size is checked against the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from precast.loader.contract.abi.dlpack import dtype_code
from precast.loader.contract.format import fields
from precast.loader.contract.format.artifact import parse_config
from precast.loader.contract.format.config import canonical, to_json
from precast.loader.contract.format.patterns import OP_NAME, SHA256
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Target
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

VERSION = 1
HEADER_LIMIT = 1 << 20
MOST_BYTES = 1 << 38
_SIZE = 2**63 - 1
_RANK, _ARGUMENTS, _DEPTH = 32, 256, 4
_KINDS = ("tensor", "none", "bool", "int", "float", "text", "tuple", "stream", "pointer", "other")


class Block(Immutable, kw_only=True):
    """A range of memory that holds tensors of a call. ``left_out`` is why its bytes are not in the dump, or empty.

    ``device`` is its type and its number as DLPack has them: (1, 0) is the host, (2, 0) the first GPU.
    """

    address: int
    size: int
    device: tuple[int, int]
    left_out: str = ""

    def to_json(self) -> dict[str, Any]:
        data = {"address": self.address, "size": self.size, "device": list(self.device)}
        return {**data, "left_out": self.left_out} if self.left_out else data

    @classmethod
    def parse(cls, value: object) -> Block:
        data = fields.known(fields.as_object(value), ("address", "size", "device", "left_out"))
        device = fields.items(data, "device", lambda v: fields.count({"": v}, "", most=2**31), most=2)
        if len(device) != 2:
            raise FormatError("expected a type and a number", "device")
        return cls(
            address=fields.count(data, "address", most=_SIZE),
            size=fields.count(data, "size", most=MOST_BYTES),
            device=(device[0], device[1]),
            left_out=fields.get(data, "left_out", str, ""),
        )


class Layout(Immutable, kw_only=True):
    """A tensor: its layout, its block, and the offset in the block where its memory begins. Strides count elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    block: int
    offset: int

    @property
    def size(self) -> int:
        """The bytes from its first element to its last."""
        return span(self.shape, self.strides, self.dtype)[1]

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": list(self.shape),
            "strides": list(self.strides),
            "dtype": self.dtype,
            "block": self.block,
            "offset": self.offset,
        }


def span(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> tuple[int, int]:
    """Where a tensor's memory begins, in bytes from its first element, and how many bytes it has.

    >>> span((2, 3), (8, 1), "float32"), span((4,), (-1,), "int8"), span((0, 5), (5, 1), "int8")
    ((0, 44), (-3, 4), (0, 0))
    """
    code = dtype_code(dtype)
    if code is None:
        raise FormatError(f"{dtype[:40]!r} is not a dtype of DLPack")
    bits = code[1] * code[2]
    if 0 in shape:
        return 0, 0
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    first, last = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
    return first * bits // 8, ((last - first + 1) * bits + 7) // 8


class DumpedArgument(Immutable, kw_only=True):
    """One argument: a tensor's ``layout``, the ``items`` of a tuple, or the ``value`` of a number or a text.

    The value of a stream, a pointer or anything else is not kept; ``value`` is then the name of its type.
    """

    kind: str
    value: Any = None
    layout: Layout | None = None
    items: tuple[DumpedArgument, ...] = ()

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": self.kind}
        if self.layout is not None:
            return {**data, **self.layout.to_json()}
        if self.kind == "tuple":
            return {**data, "items": [item.to_json() for item in self.items]}
        if self.kind == "float":
            return {**data, "value": float(self.value).hex()}  # JSON has no infinity
        return data if self.value is None else {**data, "value": self.value}

    @classmethod
    def parse(cls, value: object, depth: int = 0) -> DumpedArgument:
        if depth > _DEPTH:
            raise FormatError(f"tuples nest deeper than {_DEPTH} levels")
        data = fields.as_object(value)
        kind = fields.one_of(data, "kind", _KINDS)
        if kind == "tensor":
            return cls(kind=kind, layout=_layout(data))
        if kind == "tuple":
            fields.known(data, ("kind", "items"))
            items = fields.items(data, "items", lambda v: cls.parse(v, depth + 1), most=_ARGUMENTS)
            return cls(kind=kind, items=items)
        fields.known(data, ("kind", "value"))
        return cls(kind=kind, value=_VALUES[kind](data))

    def parts(self) -> Iterator[DumpedArgument]:
        """This argument and every item nested in it."""
        yield self
        for item in self.items:
            yield from item.parts()

    def layouts(self) -> Iterator[Layout]:
        """The layouts of its tensors."""
        return (part.layout for part in self.parts() if part.layout is not None)


def _layout(data: fields.Object) -> Layout:
    fields.known(data, ("kind", "shape", "strides", "dtype", "block", "offset"))
    shape = fields.items(data, "shape", lambda v: fields.count({"": v}, "", most=_SIZE), most=_RANK)
    strides = fields.items(data, "strides", _stride, most=_RANK)
    if len(shape) != len(strides):
        raise FormatError(f"{len(strides)} strides for {len(shape)} dimensions", "strides")
    return Layout(
        shape=shape,
        strides=strides,
        dtype=fields.parsed(data, "dtype", _dtype),
        block=fields.count(data, "block", most=_ARGUMENTS * _RANK),
        offset=fields.count(data, "offset", most=MOST_BYTES),
    )


def _stride(value: object) -> int:
    if type(value) is not int or not -_SIZE <= value <= _SIZE:
        raise FormatError("expected a whole number of 64 bits")
    return value


def _dtype(value: object) -> str:
    name = fields.text(value)
    if len(name) > 40 or dtype_code(name) is None:
        raise FormatError(f"{name[:40]!r} is not a dtype of DLPack")
    return name


def _integer(data: fields.Object) -> int:
    value = fields.get(data, "value", int)
    if not -(2**63) <= value < 2**64:
        raise FormatError("an integer beyond 64 bits", "value")
    return value


def _float(data: fields.Object) -> float:
    try:
        return float.fromhex(fields.get(data, "value", str))
    except (ValueError, OverflowError):
        raise FormatError("not a number as float.hex writes it", "value") from None


_VALUES: dict[str, Any] = {
    "none": lambda data: None,
    "bool": lambda data: fields.get(data, "value", bool),
    "int": _integer,
    "float": _float,
    "text": lambda data: fields.get(data, "value", str),
    **dict.fromkeys(("stream", "pointer", "other"), lambda data: fields.get(data, "value", str, None)),
}


class Dump(Immutable, kw_only=True):
    """One call: its kernel, its arguments, and the memory that they point to.

    ``digest`` is that of the cache's index. ``number`` counts the calls of one process. ``stream`` says whether the
    kernel takes the caller's stream.
    """

    op: str
    config: Mapping[str, Any]
    target: Target
    key: str
    cache: str
    digest: str
    signature: Signature
    process: int
    number: int
    stream: bool
    arguments: tuple[DumpedArgument, ...]
    blocks: tuple[Block, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(argument.name for argument in self.signature.passed)

    @property
    def on_host(self) -> bool:
        """Whether all its tensors are in the memory of the host."""
        return all(block.device[0] == 1 for block in self.blocks)

    def encode(self) -> bytes:
        """The header."""
        return canonical(
            {
                "version": VERSION,
                "op": self.op,
                "config": {name: to_json(value) for name, value in self.config.items()},
                "target": str(self.target),
                "key": self.key,
                "cache": self.cache,
                "digest": self.digest,
                "signature": self.signature.to_json(),
                "process": self.process,
                "number": self.number,
                "stream": self.stream,
                "arguments": [item.to_json() for item in self.arguments],
                "blocks": [item.to_json() for item in self.blocks],
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Dump:
        """A header, checked; FormatError where it does not agree with itself."""
        value = fields.as_object(fields.read_json(data, limit=HEADER_LIMIT))
        if value.get("version") != VERSION or isinstance(value.get("version"), bool):
            raise FormatError(
                f"this precast reads dumps of version {VERSION} only: read this one with the precast that wrote it"
            )
        names = (
            "version", "op", "config", "target", "key", "cache", "digest", "signature", "process", "number", "stream",
            "arguments", "blocks",
        )  # fmt: skip
        fields.known(value, names)
        dump = cls(
            op=fields.matching(value, "op", OP_NAME, "a name of an op"),
            config=parse_config(value),
            target=fields.parsed(value, "target", lambda v: Target.parse(fields.text(v))),
            key=fields.matching(value, "key", SHA256, "an artifact's key"),
            cache=fields.get(value, "cache", str),
            digest=fields.matching(value, "digest", SHA256, "a digest"),
            signature=fields.parsed(value, "signature", Signature.parse),
            process=fields.count(value, "process", most=2**31),
            number=fields.count(value, "number", most=2**53),
            stream=fields.get(value, "stream", bool),
            arguments=fields.items(value, "arguments", DumpedArgument.parse, most=_ARGUMENTS),
            blocks=fields.items(value, "blocks", Block.parse, most=_ARGUMENTS * _RANK),
        )
        _check(dump)
        return dump


def _check(dump: Dump) -> None:
    if len(dump.arguments) != len(dump.names):
        raise FormatError(f"{len(dump.arguments)} arguments, but the kernel takes {len(dump.names)}", "arguments")
    if sum(block.size for block in dump.blocks) > MOST_BYTES:
        raise FormatError(f"more than {MOST_BYTES} bytes in all", "blocks")
    for position, argument in enumerate(dump.arguments):
        for layout in argument.layouts():
            if layout.block >= len(dump.blocks):
                raise FormatError(f"there is no block {layout.block}").within(position).within("arguments")
            if layout.offset + layout.size > dump.blocks[layout.block].size:
                raise FormatError("the tensor ends after its block").within(position).within("arguments")
