"""Costs: how long each variant took to compile the last time, whatever its key was then; for the order of the next."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from precast.build.disk.memo import Memo, memo_key
from precast.build.plan.plan import Variant

_KIND = "costs"


class Costs:
    """Seconds by variant, one note an op and target. Two builds at once may lose some: it is only an order."""

    def __init__(self, notes: Memo) -> None:
        self._notes = notes
        self._new: dict[str, dict[str, float]] = {}

    def of(self, variants: Iterable[Variant]) -> dict[str, float]:
        """What is known of these, by identity."""
        tables: dict[str, dict[str, float]] = {}
        known: dict[str, float] = {}
        for variant in variants:
            place = _place(variant)
            if place not in tables:
                tables[place] = self._table(place)
            seconds = tables[place].get(_name(variant))
            if seconds is not None:
                known[variant.identity] = seconds
        return known

    def took(self, variant: Variant, seconds: float) -> None:
        """Remember what one took."""
        self._new.setdefault(_place(variant), {})[_name(variant)] = round(seconds, 3)

    def keep(self) -> None:
        """Write down what was learnt."""
        for place, table in self._new.items():
            self._notes.put(_KIND, place, {**self._table(place), **table})

    def _table(self, place: str) -> dict[str, float]:
        noted = self._notes.get(_KIND, place)
        if not isinstance(noted, dict):
            return {}
        return {name: float(s) for name, s in noted.items() if isinstance(s, (int, float)) and s >= 0}


def _place(variant: Variant) -> str:
    return memo_key(variant.op, str(variant.target))


def _name(variant: Variant) -> str:
    return hashlib.sha256(variant.identity.encode()).hexdigest()[:32]
