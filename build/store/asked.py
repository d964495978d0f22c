"""What a variant asked for when it was last built, by name: the answers of this moment make the key of its record."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from precast.build.inputs.inputs import NO_INPUTS, parse_names
from precast.build.store.record import Record
from precast.loader.format import fields
from precast.loader.format.config import canonical

_LIMIT = 16 << 20
_FACTS = 1000
_SETS = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """The names of facts of its GPU, and of its inputs; what of installed packages it read, and the digest of that."""

    facts: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    digest: str = NO_INPUTS.digest

    @classmethod
    def of(cls, record: Record) -> Asked:
        """What a record was made of."""
        return cls(tuple(sorted(record.assumed)), record.inputs.names, record.installed.names, record.installed.digest)

    def to_json(self) -> dict[str, object]:
        """As a file of the store has it."""
        names = {"facts": list(self.facts), "inputs": list(self.inputs), "installed": list(self.installed)}
        return {**names, "digest": self.digest}

    @classmethod
    def parse(cls, value: object) -> Asked:
        """Read one of them; raises FormatError."""
        data = fields.as_object(value)
        return cls(
            facts=fields.items(data, "facts", fields.text, most=_FACTS),
            inputs=fields.parsed(data, "inputs", parse_names),
            installed=fields.parsed(data, "installed", parse_names),
            digest=fields.get(data, "digest", str),
        )


def encode_asked(sets: Iterable[Asked]) -> bytes:
    """Sets of names as a file of the store.

    >>> one = Asked(("name",), ("file:search/tiles.json",))
    >>> decode_asked(encode_asked([one])) == (one,)
    True
    """
    return canonical({"asked": sorted((one.to_json() for one in sets), key=canonical)})


@functools.lru_cache(maxsize=256)
def decode_asked(data: bytes) -> tuple[Asked, ...]:
    """Read such a file; raises FormatError. Variants of one kernel mostly have the same."""
    value = fields.as_object(fields.read_json(data, limit=_LIMIT))
    return fields.items(value, "asked", Asked.parse, most=_SETS)
