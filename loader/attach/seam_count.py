"""What one function of an attached library requested so far."""

from __future__ import annotations

from collections.abc import Mapping

from precast.loader.contract.values import Immutable

_REASONS_SHOWN = 20


class SeamCount(Immutable, kw_only=True):
    """What one function of a library requested so far: the keys that a cache served, those that none did, and why."""

    function: str
    hits: int
    misses: int
    reasons: Mapping[str, int]

    def __str__(self) -> str:
        lines = [f"\n    {count} x {reason}" for reason, count in self.reasons.items()]
        more = len(lines) - _REASONS_SHOWN
        why = "".join(lines[:_REASONS_SHOWN]) + (f"\n    and {more} more reasons" if more > 0 else "")
        return f"{self.function}: {self.hits} served, {self.misses} not{why}"
