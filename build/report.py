"""The report: what a build does while it runs, and what it has done; for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from precast.build.compile.outcome import Failed
from precast.build.plan.plan import Variant
from precast.build.store.record import Record

State = Literal["started", "built", "reused", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a build: a variant that is begun, or done, or failed, or was there. ``done`` counts those settled."""

    done: int
    total: int
    variant: Variant
    state: State
    seconds: float = 0.0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The step as one event of ``precast build --json``."""
        event: dict[str, Any] = {
            "event": self.state,
            "done": self.done,
            "total": self.total,
            "variant": self.variant.to_json(),
        }
        if self.state == "built":
            event["seconds"] = round(self.seconds, 3)
        if self.state == "failed":
            event["reason"] = self.reason
        return event


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What one variant has come to: seconds of its compilation, bytes of its libraries, bytes spilled a thread."""

    variant: Variant
    seconds: float
    size: int
    spilled: int

    @classmethod
    def of(cls, variant: Variant, record: Record) -> Built:
        """The facts out of its record."""
        return cls(
            variant=variant,
            seconds=record.seconds,
            size=sum(len(p.library) for p in record.products),
            spilled=max((r.stack + r.local for p in record.products for r in p.resources), default=0),
        )

    def to_json(self) -> dict[str, Any]:
        """As it stands in the last event of ``precast build --json``."""
        return {
            "variant": str(self.variant),
            "seconds": round(self.seconds, 3),
            "size": self.size,
            "spilled": self.spilled,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a build did. ``failed`` variants are not in the cache; the others are. ``facts`` are of what was built."""

    built: tuple[Variant, ...]
    reused: tuple[Variant, ...]
    failed: tuple[Failed, ...]
    files: int
    size: int
    facts: tuple[Built, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.failed

    def slowest(self, most: int = 3) -> tuple[Built, ...]:
        """Those that took longest."""
        return tuple(sorted(self.facts, key=lambda b: -b.seconds)[:most])

    def largest(self, most: int = 3) -> tuple[Built, ...]:
        """Those with the largest libraries."""
        return tuple(sorted(self.facts, key=lambda b: -b.size)[:most])

    def spilling(self) -> tuple[Built, ...]:
        """Those that spill registers to memory, the worst first."""
        return tuple(sorted((b for b in self.facts if b.spilled), key=lambda b: -b.spilled))

    def to_json(self) -> dict[str, Any]:
        """The last event of ``precast build --json``."""
        return {
            "event": "report",
            "built": len(self.built),
            "reused": len(self.reused),
            "failed": [{**f.variant.to_json(), "reason": f.reason, "details": f.details} for f in self.failed],
            "files": self.files,
            "size": self.size,
            "slowest": [b.to_json() for b in self.slowest()],
            "largest": [b.to_json() for b in self.largest()],
            "spilling": [b.to_json() for b in self.spilling()],
        }
