"""The names of the facts and inputs that a variant requested when it was last built.

Their values at this moment decide which record a build can use: see ``lookup.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from precast.build.inputs.inputs import NO_INPUTS, parse_names
from precast.build.store.record import Record
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import canonical

_LIMIT = 16 << 20
_FACTS = 1000
_SETS = 64


@dataclass(frozen=True, slots=True)
class RequestedFacts:
    """The names of the facts of its GPU and of its inputs; the installed packages that it read, and their digest."""

    facts: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    digest: str = NO_INPUTS.digest

    @classmethod
    def of(cls, record: Record) -> RequestedFacts:
        """Those of a record."""
        return cls(tuple(sorted(record.assumed)), record.inputs.names, record.installed.names, record.installed.digest)

    def same_names(self, other: RequestedFacts) -> bool:
        """Whether both request the same facts and inputs, whatever the installed packages are."""
        return (self.facts, self.inputs) == (other.facts, other.inputs)

    def to_json(self) -> dict[str, object]:
        """As a file of the store has it."""
        names = {"facts": list(self.facts), "inputs": list(self.inputs), "installed": list(self.installed)}
        return {**names, "digest": self.digest}

    @classmethod
    def parse(cls, value: object) -> RequestedFacts:
        """Read what ``to_json`` gave; raises FormatError."""
        data = fields.as_object(value)
        return cls(
            facts=fields.items(data, "facts", fields.text, most=_FACTS),
            inputs=fields.parsed(data, "inputs", parse_names),
            installed=fields.parsed(data, "installed", parse_names),
            digest=fields.get(data, "digest", str),
        )


def encode_requested_facts(sets: Iterable[RequestedFacts]) -> bytes:
    """Sets of names as a file of the store.

    >>> one = RequestedFacts(("name",), ("file:search/tiles.json",))
    >>> decode_requested_facts(encode_requested_facts([one])) == (one,)
    True
    """
    return canonical({"asked": sorted((facts.to_json() for facts in sets), key=canonical)})


@functools.lru_cache(maxsize=256)
def decode_requested_facts(data: bytes) -> tuple[RequestedFacts, ...]:
    """Read such a file; raises FormatError. Variants of one kernel mostly have the same."""
    value = fields.as_object(fields.read_json(data, limit=_LIMIT))
    return fields.items(value, "asked", RequestedFacts.parse, most=_SETS)
