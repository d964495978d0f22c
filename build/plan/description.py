"""Descriptions: what a kernel declares, read without compiling it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from precast.build.plan.entry import KernelRef
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import parse_key
from precast.loader.contract.format.patterns import NAME, OP_NAME, PART
from precast.loader.contract.format.target_pattern import TargetPattern
from precast.loader.errors import FormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The declaration of a kernel.

    ``declared`` is False for a plain function: its manifest then names the tuned keys. ``has_supports`` is True for a
    kernel whose ``supports`` must be called for each variant. ``parts`` names the objects of a kernel with several.
    ``speed_only`` names the facts of the GPU that only affect its speed, ``imports`` the modules that it imports when
    it compiles.
    """

    op: str
    source: str
    keys: tuple[Key, ...]
    targets: tuple[str, ...] = ()
    doc: str = ""
    declared: bool = False
    has_supports: bool = False
    parts: tuple[str, ...] = ()
    speed_only: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: object) -> Description:
        """Read what the child process sent."""
        data = fields.as_object(value)
        return cls(
            op=fields.matching(data, "op", OP_NAME, "a name of an op"),
            source=fields.get(data, "source", str),
            keys=fields.items(data, "keys", parse_key, most=256),
            targets=fields.items(data, "targets", lambda v: str(TargetPattern.parse(fields.text(v))), most=256),
            doc=fields.get(data, "doc", str),
            declared=fields.get(data, "declared", bool),
            has_supports=fields.get(data, "has_supports", bool),
            parts=fields.items(data, "parts", lambda v: _part(fields.text(v)), most=64),
            speed_only=fields.items(data, "speed_only", lambda v: _fact(fields.text(v)), most=64, default=()),
            imports=fields.items(data, "imports", lambda v: _module(fields.text(v)), most=64, default=()),
        )


def _part(text: str) -> str:
    if not PART.admits(text):
        raise FormatError(f"{text[:80]!r} is not the name of a part")
    return text


def _module(text: str) -> str:
    if len(text) > 256 or not all(part.isidentifier() for part in text.split(".")):
        raise FormatError(f"{text[:80]!r} is not the name of a module")
    return text


def _fact(text: str) -> str:
    if not NAME.admits(text):
        raise FormatError(f"{text[:80]!r} is not the name of a fact")
    return text


@dataclass(frozen=True, slots=True)
class NotDescribed:
    """The reason why a kernel could not be described, which ends in what to do."""

    reason: str


Described = Mapping[KernelRef, Description | NotDescribed]
