"""What one function of an attached library requested so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from precast.loader.contract.values import Immutable

_REASONS_SHOWN = 20


class SeamCount(Immutable, kw_only=True):
    """What one function of a library requested so far: the keys that a cache served, those that none did, and why."""

    function: str
    hits: int
    misses: int
    reasons: Mapping[str, int]

    @classmethod
    def of(cls, function: str, answers: Iterable[str]) -> SeamCount:
        """Count the answers to a function's keys: the reason why a key was not served, or no text.

        >>> print(SeamCount.of("m:f", ["", "no variant fits"]))
        m:f: 1 served, 1 not
            1 x no variant fits
        """
        reasons = Counter(answers)
        hits = reasons.pop("", 0)
        return cls(function=function, hits=hits, misses=sum(reasons.values()), reasons=dict(reasons.most_common()))

    def __str__(self) -> str:
        lines = [f"\n    {count} x {reason}" for reason, count in self.reasons.items()]
        more = len(lines) - _REASONS_SHOWN
        why = "".join(lines[:_REASONS_SHOWN]) + (f"\n    and {more} more reasons" if more > 0 else "")
        return f"{self.function}: {self.hits} served, {self.misses} not{why}"
