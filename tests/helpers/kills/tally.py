"""What so many kills and stops of one kind of process have led to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """``signals`` by name, ``ends`` of those runs by exit status, ``broken``: each promise that did not hold."""

    kind: str
    signals: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    longest: float = 0.0

    @property
    def number(self) -> int:
        """How many signals were delivered."""
        return sum(self.signals.values())

    def to_json(self) -> dict[str, Any]:
        """As ``benchmarks/kills.py`` keeps it."""
        return {
            "kind": self.kind,
            "signals": dict(sorted(self.signals.items())),
            "ends": dict(sorted(self.ends.items())),
            "reasons": dict(sorted(self.reasons.items())),
            "broken": self.broken,
            "longest": round(self.longest, 1),
        }
