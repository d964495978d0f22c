"""Costs: how long each variant took to compile the last time, with any key; the longest are compiled first.

It avoids idle workers at the end of a build, while one compiles a long variant that it began last: with variants of
0.3 s and one of 15 s, up to 15 s. It can be removed when all variants of a plan take about the same time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from precast.build.disk.memo import Memo, memo_key
from precast.build.plan.variant import Variant

_KIND = "costs"


class Costs:
    """Seconds by variant, in a table for each op and target. Concurrent builds may lose entries, which affect order."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self._new: dict[str, dict[str, float]] = {}

    def of(self, variants: Iterable[Variant]) -> dict[str, float]:
        """The known seconds of these variants, by identity."""
        tables: dict[str, dict[str, float]] = {}
        seconds_of: dict[str, float] = {}
        for variant in variants:
            key = _table_key(variant)
            if key not in tables:
                tables[key] = self._table(key)
            seconds = tables[key].get(_name(variant))
            if seconds is not None:
                seconds_of[variant.identity] = seconds
        return seconds_of

    def add(self, variant: Variant, seconds: float) -> None:
        """Add the seconds of one variant."""
        self._new.setdefault(_table_key(variant), {})[_name(variant)] = round(seconds, 3)

    def save(self) -> None:
        """Write the added seconds to the memo."""
        for key, table in self._new.items():
            self._memo.put(_KIND, key, {**self._table(key), **table})

    def _table(self, key: str) -> dict[str, float]:
        noted = self._memo.get(_KIND, key)
        if not isinstance(noted, dict):
            return {}
        return {name: float(s) for name, s in noted.items() if isinstance(s, (int, float)) and s >= 0}


def _table_key(variant: Variant) -> str:
    return memo_key(variant.op, str(variant.target))


def _name(variant: Variant) -> str:
    return hashlib.sha256(variant.identity.encode()).hexdigest()[:32]
