"""A table of figures of one kind, and the bounds that they are held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from loader_benchmark import Result


@dataclass
class Table:
    """Figures by what they were measured of; notes say what was left out, and why."""

    unit: str
    figures: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    bounds: list[Result] = field(default_factory=list)

    def bound(self, ours: str, most: float, other: str) -> None:
        """Promise that one figure is at most so many times another; nothing is promised where either was left out."""
        if ours in self.figures and other in self.figures:
            ratio = self.figures[ours] / self.figures[other]
            self.bounds.append(Result(what=f"{ours} / {other}", value=ratio, unit="", at_most=most))

    def limit(self, ours: str, most: float) -> None:
        """Promise that a figure is at most this."""
        if ours in self.figures:
            self.bounds.append(Result(what=ours, value=self.figures[ours], unit=self.unit, at_most=most))

    def results(self) -> Iterator[Result]:
        """The figures, the smallest first, then the bounds; the notes are printed."""
        for name, figure in sorted(self.figures.items(), key=lambda item: item[1]):
            yield Result(what=name, value=figure, unit=self.unit)
        yield from self.bounds
        for note in self.notes:
            print(f"  note: {note}")
