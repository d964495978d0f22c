"""The report of a build: its steps while it runs, and its result, as text and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from precast.build.compile.outcome import Failed
from precast.build.measurements.fit import Fitted
from precast.build.plan.variant import Variant
from precast.build.store.record import Record

State = Literal["started", "built", "reused", "failed"]
_LISTED = 3  # of the slowest and of the largest variants


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a build: a variant was started, built, reused or failed. ``done`` counts all but the started ones."""

    done: int
    total: int
    variant: Variant
    state: State
    seconds: float = 0.0
    reason: str = ""
    code: str = ""

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
            event |= {"reason": self.reason, "code": self.code}
        return event


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A variant that was built: seconds of its compilation, bytes of its libraries, bytes that a thread spills.

    ``closed`` says by what everything but its inputs was kept away; ``unlaunchable`` is the reason why its cubin cannot
    be launched.
    """

    variant: Variant
    seconds: float
    size: int
    spilled: int
    closed: str = "none"
    unlaunchable: str = ""

    @classmethod
    def of(cls, variant: Variant, record: Record) -> Built:
        """The figures of its record."""
        return cls(
            variant=variant,
            seconds=record.seconds,
            size=sum(len(p.library) for p in record.products),
            spilled=max((r.stack + r.local for p in record.products for r in p.resources), default=0),
            closed=record.closed,
            unlaunchable=next((p.unlaunchable for p in record.products if p.unlaunchable), ""),
        )

    def to_json(self) -> dict[str, Any]:
        """As the last event of ``precast build --json`` has it."""
        return {
            "variant": str(self.variant),
            "seconds": round(self.seconds, 3),
            "size": self.size,
            "spilled": self.spilled,
            "closed": self.closed,
            "unlaunchable": self.unlaunchable,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a build. ``failed`` variants are not in the cache. ``facts`` are the figures of those built."""

    built: tuple[Variant, ...]
    reused: tuple[Variant, ...]
    failed: tuple[Failed, ...]
    files: int
    size: int
    facts: tuple[Built, ...] = ()
    tuning: Fitted | None = None  # if manifests name measurements, and a cache was written
    advice: tuple[tuple[Variant, str], ...] = ()  # what authors should correct or add, each with a variant

    @property
    def complete(self) -> bool:
        return not self.failed

    def slowest(self) -> tuple[Built, ...]:
        """The variants that took the longest time."""
        return tuple(sorted(self.facts, key=lambda b: -b.seconds)[:_LISTED])

    def largest(self) -> tuple[Built, ...]:
        """The variants with the largest libraries."""
        return tuple(sorted(self.facts, key=lambda b: -b.size)[:_LISTED])

    def spilling(self) -> tuple[Built, ...]:
        """The variants that spill registers to memory, the worst first."""
        return tuple(sorted((b for b in self.facts if b.spilled), key=lambda b: -b.spilled))

    @property
    def closed(self) -> str:
        """By what the variants that were built were closed, the weakest first; empty if none was built."""
        means = {b.closed for b in self.facts}
        return ", ".join(name for name in ("none", "landlock", "namespaces") if name in means)

    def unlaunchable(self) -> tuple[Built, ...]:
        """The variants whose cubins cannot be launched."""
        return tuple(b for b in self.facts if b.unlaunchable)

    def to_json(self) -> dict[str, Any]:
        """The last event of ``precast build --json``."""
        return {
            "event": "report",
            "built": len(self.built),
            "reused": len(self.reused),
            "failed": [
                {**f.variant.to_json(), "reason": f.reason, "code": f.code, "details": f.details} for f in self.failed
            ],
            "files": self.files,
            "size": self.size,
            "slowest": [b.to_json() for b in self.slowest()],
            "largest": [b.to_json() for b in self.largest()],
            "spilling": [b.to_json() for b in self.spilling()],
            "unlaunchable": [b.to_json() for b in self.unlaunchable()],
            "advice": [{"variant": str(variant), "text": text} for variant, text in self.advice],
            "closed": self.closed,
            **({} if self.tuning is None else {"tuning": self.tuning.to_json()}),
        }
