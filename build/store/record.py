"""Records: the results of compiling a variant, kept so that it need not be compiled again."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from precast.build.gpu.profile import parse_answers
from precast.build.inputs.inputs import NO_INPUTS, Inputs
from precast.build.ipc.message import Message
from precast.loader.contract.format import fields
from precast.loader.contract.format.artifact import Host, Resources
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError
from precast.loader.machine.facts import Answer

_DIGEST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One object of a variant, from the compiler's bytes to the library: everything that its artifacts need.

    ``rehearsed`` is true if the object's host code was run to find out how a cubin of it is launched. ``program`` is
    the result; if there is none, ``unlaunchable`` is the reason. ``ptx`` is the text that the device code was made of;
    it is empty in records of builds that kept none.
    """

    op: str
    symbol: str
    signature: Signature
    target: Target
    host: Host
    resources: tuple[Resources, ...]
    obj: bytes
    library: bytes
    cubins: tuple[bytes, ...]
    rehearsed: bool = False
    program: HostProgram | None = None
    unlaunchable: str = ""
    ptx: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A built variant.

    ``assumed`` has the facts of its GPU that it requested, ``inputs`` the author's files that it could read, both with
    their values; the key covers them. ``installed`` has its other inputs, which must be unchanged. ``closed`` says by
    what everything else was kept away. ``seconds`` is for reports. ``provenance`` has what the compile function of an
    attached library adds to the provenance of its artifacts.
    """

    key: str
    products: tuple[Product, ...]
    seconds: float
    assumed: Mapping[str, Answer] = field(default_factory=dict)
    inputs: Inputs = NO_INPUTS
    installed: Inputs = NO_INPUTS
    closed: str = "none"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def serves(self, kinds: Iterable[str], *, ptx: bool = False) -> bool:
        """Whether artifacts of these kinds can be made from it, with their PTX: a cubin needs a rehearsed launch."""
        if ptx and not all(p.ptx for p in self.products):
            return False
        return "cubin" not in kinds or all(p.rehearsed for p in self.products)

    def encode(self) -> bytes:
        """The record as a file: its digest, then one message."""
        header: dict[str, Any] = {
            "key": self.key,
            "seconds": self.seconds,
            "assumed": dict(self.assumed),
            "inputs": self.inputs.to_json(),
            "installed": self.installed.to_json(),
            "closed": self.closed,
            "products": [],
            **({"provenance": dict(self.provenance)} if self.provenance else {}),
        }
        parts: list[bytes] = []
        for product in self.products:
            header["products"].append(
                {
                    "op": product.op,
                    "symbol": product.symbol,
                    "signature": product.signature.to_json(),
                    "target": str(product.target),
                    "host": product.host.to_json(),
                    "resources": [r.to_json() for r in product.resources],
                    "cubins": len(product.cubins),
                    "rehearsed": product.rehearsed,
                    "program": product.program.to_json() if product.program else None,
                    "unlaunchable": product.unlaunchable,
                }
            )
            parts += [product.obj, product.library, *product.cubins]
        header["ptx"] = [len(product.ptx) for product in self.products]
        parts.append(b"".join(product.ptx for product in self.products))
        body = Message(header, tuple(parts)).encode()
        return hashlib.sha256(body).digest() + body

    def with_bytes_for(self, emit: Collection[str], *, ptx: bool) -> Record:
        """The record with only the bytes that artifacts of these kinds need: a plan may have thousands of records."""
        products = (
            replace(
                product,
                obj=b"",
                cubins=product.cubins if "cubin" in emit else (),
                library=product.library if "object" in emit else b"",
                ptx=product.ptx if ptx else b"",
            )
            for product in self.products
        )
        return replace(self, products=tuple(products))

    @classmethod
    def decode(cls, data: bytes, *, key: str) -> Record:
        """Read the record of this key; raises FormatError."""
        digest, body = data[:_DIGEST], data[_DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            raise FormatError("the record's digest does not match its content")
        message = Message.decode(body)
        header = message.header
        if fields.get(header, "key", str) != key:
            raise FormatError("the record has another key", "key")
        parts = list(message.parts)
        products = fields.items(header, "products", lambda value: _product(value, parts), most=64)
        products = _with_ptx(products, fields.items(header, "ptx", _size, most=64), parts)
        return cls(
            key=key,
            products=products,
            seconds=fields.get(header, "seconds", float),
            assumed=fields.parsed(header, "assumed", parse_answers),
            inputs=fields.parsed(header, "inputs", Inputs.parse),
            installed=fields.parsed(header, "installed", Inputs.parse),
            closed=fields.get(header, "closed", str),
            provenance=fields.parsed(header, "provenance", fields.as_object, {}),
        )


def _product(value: object, parts: list[bytes]) -> Product:
    data = fields.as_object(value)
    count = fields.count(data, "cubins", most=64)
    if len(parts) < 2 + count:
        raise FormatError("the record lacks attachments")
    obj, library, *cubins = (parts.pop(0) for _ in range(2 + count))
    return Product(
        op=fields.get(data, "op", str),
        symbol=fields.get(data, "symbol", str),
        signature=fields.parsed(data, "signature", Signature.parse),
        target=fields.parsed(data, "target", Target.parse),
        host=fields.parsed(data, "host", Host.parse),
        resources=fields.items(data, "resources", Resources.parse, most=256),
        obj=obj,
        library=library,
        cubins=tuple(cubins),
        rehearsed=fields.get(data, "rehearsed", bool),
        program=fields.parsed(data, "program", lambda v: None if v is None else HostProgram.parse(v)),
        unlaunchable=fields.get(data, "unlaunchable", str),
    )


def _with_ptx(products: tuple[Product, ...], sizes: tuple[int, ...], parts: list[bytes]) -> tuple[Product, ...]:
    """The products with their PTX, which is one attachment, one text after the other."""
    if len(parts) != 1 or len(sizes) != len(products) or sum(sizes) != len(parts[0]):
        raise FormatError("the record's PTX has another size than it says", "ptx")
    ends = tuple(accumulate(sizes))
    return tuple(
        replace(product, ptx=parts[0][end - size : end])
        for product, size, end in zip(products, sizes, ends, strict=True)
    )


def _size(value: object) -> int:
    if type(value) is not int or value < 0:
        raise FormatError("not a size")
    return value
