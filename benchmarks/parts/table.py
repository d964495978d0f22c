"""A table of figures, and the bounds that they are held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Table:
    """Figures of one kind, by what they were measured of."""

    title: str
    unit: str
    figures: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    bounds: list[tuple[str, float, float]] = field(default_factory=list)

    def bound(self, ours: str, most: float, other: str) -> None:
        """Promise that one figure is at most so many times another; nothing is promised where either was left out."""
        if ours in self.figures and other in self.figures:
            ratio = self.figures[ours] / self.figures[other]
            self.bounds.append((f"{ours} / {other}", ratio, most))

    def limit(self, ours: str, most: float) -> None:
        """Promise that a figure is at most this."""
        if ours in self.figures:
            self.bounds.append((ours, self.figures[ours], most))

    @property
    def missed(self) -> list[str]:
        """The promises that did not hold."""
        return [name for name, found, most in self.bounds if found > most]

    def __str__(self) -> str:
        lines = [f"\n{self.title} ({self.unit})"]
        lines += [
            f"  {figure:12.3f}  {name}" for name, figure in sorted(self.figures.items(), key=lambda item: item[1])
        ]
        lines += [
            f"  {'ok    ' if found <= most else 'MISSED'}  {name}: {found:.4g}, at most {most:g}"
            for name, found, most in self.bounds
        ]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        bounds = [{"bound": name, "found": found, "most": most} for name, found, most in self.bounds]
        return {"unit": self.unit, "figures": self.figures, "bounds": bounds, "notes": self.notes}
