"""Small panels side by side, a point for each measured size: how many times as fast as a peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pictures.scale import Scale
from pictures.svg import FULL, TIMES, Picture, width_of


@dataclass(frozen=True, slots=True)
class Point:
    """A ratio at a size, and what a reader who points at it gets."""

    size: float
    ratio: float
    note: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The points of one kernel, by its name and a line about them."""

    name: str
    points: Sequence[Point]
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How panels are laid out: their columns, their two axes with the values that are written at them."""

    columns: int
    high: float
    sizes: tuple[float, float]
    ratios: tuple[float, float]
    size_ticks: Sequence[tuple[float, str]]
    ratio_ticks: Sequence[float]
    level: float = 0.0  # ratios this far below 1 still count as equal
    top: float = 12
    left: float = 38
    gap: float = 14
    width: float = FULL
    mono: bool = True

    def height(self, count: int) -> float:
        """The height that so many panels take, with the axis below them."""
        return self.top + -(-count // self.columns) * (self.high + 46)

    def draw(self, picture: Picture, panels: Sequence[Panel]) -> None:
        """All panels."""
        wide = (self.width - self.left - 8 - self.gap * (self.columns - 1)) / self.columns
        for place, panel in enumerate(panels):
            row, column = divmod(place, self.columns)
            x = self.left + column * (wide + self.gap)
            self._panel(picture, panel, x, self.top + row * (self.high + 46), wide, first=column == 0)

    def _panel(self, picture: Picture, panel: Panel, x: float, y: float, wide: float, *, first: bool) -> None:
        picture.text(x, y + 10, panel.name, more="mono bold" if self.mono else "bold")
        if panel.about:
            picture.text(x + wide, y + 10, panel.about, "small", fill="soft", at="end")
        top, bottom = y + 18, y + 18 + self.high
        across = Scale(*self.sizes, x + 6, x + wide - 6)
        up = Scale(*self.ratios, bottom - 4, top + 4)
        picture.box(x, top, wide, self.high, "panel", round=4)
        for ratio in self.ratio_ticks:
            picture.line(x, up(ratio), x + wide, up(ratio), "soft" if ratio == 1 else "line", dashed=ratio == 1)
            if first:
                picture.text(x - 6, up(ratio) + 4, f"{ratio:g}{TIMES}", "small", fill="soft", at="end")
        for size, text in self.size_ticks:
            half = width_of(text, "small") / 2
            middle = min(max(across(size), x + half - 6), x + wide - half + 6)
            picture.text(middle, bottom + 14, text, "small", fill="soft", at="middle")
        for point in sorted(panel.points, key=lambda p: (p.size, p.ratio, p.note)):
            fill = "ours" if point.ratio >= 1 - self.level else "behind"
            picture.dot(across(point.size), up(point.ratio), fill, title=point.note)
