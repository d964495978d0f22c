"""Assumptions: facts of a GPU that were compiled into an artifact and must hold where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.patterns import NAME
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

Built = Mapping[str, int | str]
"""The values that an artifact was built with, by the names of the facts."""

_MOST = 256
_LARGEST = 2**63 - 1
_LONGEST = 256


class Assumptions(Immutable, kw_only=True):
    """What an artifact assumes of its GPU: ``needs`` must hold; a difference in ``speed`` only costs speed.

    >>> Assumptions.parse({"needs": {"multiprocessor_count": 132}, "speed": {}}).needs
    {'multiprocessor_count': 132}
    """

    needs: Built
    speed: Built

    def to_json(self) -> dict[str, Any]:
        return {"needs": dict(self.needs), "speed": dict(self.speed)}

    @classmethod
    def parse(cls, value: object) -> Assumptions:
        data = fields.known(fields.as_object(value), ("needs", "speed"))
        needs, speed = (_facts(data, name) for name in ("needs", "speed"))
        both = sorted(needs.keys() & speed.keys())
        if both:
            raise FormatError("the fact is also in needs", f"speed.{both[0][:80]}")
        if not needs and not speed:
            raise FormatError("expected at least one fact")
        return cls(needs=needs, speed=speed)


def _facts(data: fields.Object, name: str) -> Built:
    facts = fields.table(data, name, _fact, most=_MOST)
    for fact in facts:
        if not NAME.admits(fact):
            raise FormatError("not the name of a fact", f"{name}.{fact[:80]}")
    return facts


def _fact(value: object) -> int | str:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    if type(value) is int and -_LARGEST - 1 <= value <= _LARGEST:
        return value
    raise FormatError("expected a number or a text")
