"""Outcomes: the request to a worker for a variant, and its reply as objects, or as the reason of a failure."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from precast.build.gpu.profile import parse_answers
from precast.build.inputs.inputs import NO_INPUTS, Inputs
from precast.build.ipc.message import Message
from precast.build.plan.variant import Variant
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import to_json
from precast.loader.contract.format.several_objects import MOST, numbered
from precast.loader.contract.format.signature import Signature
from precast.loader.errors import FormatError
from precast.loader.machine.facts import Answer

_CODE = re.compile(r"PC[A-Z][0-9]{2}").fullmatch
_MANY = 8  # variants of one function, of which one is compiled twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """One compiled object: the op it is stored under, its entry symbol, its signature, its bytes, and its PTX.

    The PTX is empty where the compiler keeps none.
    """

    op: str
    symbol: str
    signature: Signature
    code: bytes
    ptx: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A variant that compiled. ``assumed`` has the facts of its GPU that it requested, ``inputs`` what it could read,
    and ``closed`` by what the rest was kept away (``precast.build.child.closed``).

    ``provenance`` has what the compile function of an attached library adds to the provenance of its artifacts; such a
    function may have compiled several objects. ``advice`` is what its author should correct or add.
    """

    variant: Variant
    objects: tuple[Object, ...]
    seconds: float
    assumed: Mapping[str, Answer] = field(default_factory=dict)
    inputs: Inputs = NO_INPUTS
    closed: str = "none"
    provenance: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A variant that did not compile: the reason, and the traceback and printed text.

    ``code`` is that of precast's own error (``docs/errors.md``), and empty where the author's code or the
    compiler failed.
    """

    variant: Variant
    reason: str
    details: str = ""
    code: str = ""


Outcome = Compiled | Failed


def entry_names(variant: Variant) -> tuple[str, ...]:
    """The names of a variant's entry functions, one for each op that it is stored under. They depend on nothing else.

    The object defines each as ``__tvm_ffi_<name>``.
    """
    digest = hashlib.sha256(variant.identity.encode()).hexdigest()[:16]
    return tuple(f"{op.replace('.', '_')}_{digest}" for op in variant.produces)


def request_for(variant: Variant, seconds: float, *, twice: bool = False) -> Mapping[str, object]:
    """The request to a worker for a variant, which may take so many seconds, and may be compiled ``twice``."""
    return {
        "source": variant.source,
        "config": {name: to_json(value) for name, value in variant.config.items()},
        "symbols": list(entry_names(variant)),
        "imports": list(variant.imports),
        "inputs": list(variant.inputs),
        "seconds": seconds,
        "twice": twice,
    }


def sampled(variants: Sequence[Variant]) -> frozenset[str]:
    """The identities of variants that a build compiles twice: one of each function with many, and at least one.

    The choice depends on nothing but the variants.
    """
    first: dict[str, list[str]] = {}
    for variant in variants:
        first.setdefault(variant.source, []).append(variant.identity)
    every = sorted((hashlib.sha256(name.encode()).hexdigest(), name) for name in itertools.chain(*first.values()))
    digests = {name: digest for digest, name in every}
    of_many = [min(names, key=digests.__getitem__) for names in first.values() if len(names) >= _MANY]
    return frozenset(of_many or [name for _, name in every[:1]])


def outcome_of(variant: Variant, reply: Message, output: str) -> Outcome:
    """The outcome that a worker's reply describes. The reply is checked like any other input."""
    header = reply.header
    if "error" in header:
        details = "\n".join(part for part in (str(header.get("traceback", "")), output) if part.strip())
        code = str(header.get("code", ""))
        return Failed(variant=variant, reason=str(header["error"]), details=details, code=code if _CODE(code) else "")
    names, ops = entry_names(variant), variant.produces
    if variant.attached and 1 < len(reply.parts) <= MOST:
        names = tuple(numbered(names[0], number, "_") for number in range(len(reply.parts)))
        ops = tuple(numbered(variant.op, number) for number in range(len(reply.parts)))
    try:
        signatures = [Signature.parse(s) for s in header["signatures"]]
        ptx = [
            text.encode() for text in fields.items(header, "ptx", fields.text, most=MOST, default=("",) * len(names))
        ]
        if not len(signatures) == len(reply.parts) == len(names) == len(ptx):
            raise FormatError(f"{len(reply.parts)} objects for {len(names)} names")
        seconds = float(header["seconds"])
        assumed = parse_answers(header["assumed"])
        inputs = Inputs.parse(header["inputs"])
        closed = fields.get(header, "closed", str)
        provenance = fields.get(header, "provenance", dict)
        advice = fields.get(header, "advice", str, default="")
    except (FormatError, KeyError, TypeError, ValueError) as error:
        reason = f"the worker's reply cannot be read: {error}; report this"
        return Failed(variant=variant, reason=reason, details=output, code=FormatError.code)
    objects = tuple(
        Object(op=op, symbol=f"__tvm_ffi_{name}", signature=signature, code=code, ptx=text)
        for op, name, signature, code, text in zip(ops, names, signatures, reply.parts, ptx, strict=True)
    )
    return Compiled(
        variant=variant,
        objects=objects,
        seconds=seconds,
        assumed=assumed,
        inputs=inputs,
        closed=closed,
        provenance=provenance,
        advice=advice,
    )
