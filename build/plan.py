"""The plan: every variant that the manifests ask for, in one order, with nothing left to decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precast.build.errors import Location
from precast.loader.config import Config, Key, canonical, thaw
from precast.loader.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One call of a kernel function for one target: the unit that is compiled.

    ``config`` is the full config, each value in its one form. ``rank`` is the author's order among variants that
    differ in tuned keys only: lower is preferred. A function that compiles several objects names them in ``parts``.
    """

    op: str
    source: str
    config: Config
    target: Target
    location: Location
    tuned: tuple[str, ...] = ()
    emit: tuple[str, ...] = ("object",)
    env: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    rank: int = 0

    @property
    def identity(self) -> str:
        """What makes it this variant and no other, as canonical JSON: its op, its config, its target."""
        config = {name: thaw(value) for name, value in self.config.items()}
        return canonical([self.op, config, str(self.target)]).decode()

    @property
    def produces(self) -> tuple[str, ...]:
        """The ops that its artifacts are filed under: its own, or one for each part (``op.part``)."""
        return tuple(f"{self.op}.{part}" for part in self.parts) or (self.op,)

    def __str__(self) -> str:
        values = ", ".join(f"{name}={_show(thaw(value))}" for name, value in self.config.items())
        return f"{self.op}({values}) for {self.target}"

    def to_json(self) -> dict[str, Any]:
        """The variant as ``precast plan --json`` prints it."""
        return {
            "op": self.op,
            "source": self.source,
            "config": {name: thaw(value) for name, value in self.config.items()},
            "target": str(self.target),
            "tuned": list(self.tuned),
            "emit": list(self.emit),
            "env": dict(self.env),
            "parts": list(self.parts),
            "rank": self.rank,
            "location": str(self.location),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPlan:
    """What the index will say of an op beside its artifacts."""

    keys: tuple[Key, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A variant that was asked for and cannot be built, in an entry that says ``skip_unsupported: true``."""

    variant: Variant
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that one build makes. ``search`` holds the folders that workers import users' modules from."""

    name: str
    variants: tuple[Variant, ...]
    ops: Mapping[str, OpPlan]
    search: tuple[Path, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def _show(value: object) -> str:
    return value if isinstance(value, str) else str(value)
