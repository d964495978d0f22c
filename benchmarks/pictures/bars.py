"""Bars from left to right, each of one or more parts, with their sum behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pictures.svg import NARROW, Picture, width_of

HIGH = 20
STEP = 30
ABOVE = 18
"""The room of a name that is above its bar, where the picture is narrow."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: its length as a value, its colour, and what it is."""

    value: float
    fill: str
    note: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with its name and what is written behind it; ``bold`` for our own."""

    name: str
    parts: Sequence[Part]
    text: str
    bold: bool = False

    @property
    def value(self) -> float:
        """The length of all parts."""
        return sum(part.value for part in self.parts)


def step(picture: Picture) -> float:
    """The height of a bar with its distance to the next.

    >>> step(Picture(736, 100, "")), step(Picture(368, 100, ""))
    (30, 48)
    """
    return STEP if picture.width > NARROW else STEP + ABOVE


def draw(picture: Picture, bars: Sequence[Bar], x: float, y: float, wide: float) -> float:
    """Draw bars into a room that is so wide; the y below them is returned."""
    above = ABOVE if picture.width <= NARROW else 0
    names = -2.0 if above else max(width_of(bar.name) for bar in bars) * 0.94
    texts = max(width_of(bar.text) for bar in bars) + 8
    scale = (wide - names - 10 - texts) / max(bar.value for bar in bars)
    for place, bar in enumerate(bars):
        top, more = y + step(picture) * place + above, "bold" if bar.bold else ""
        left = x + names + 10
        if above:
            picture.text(left, top - 6, bar.name, more=more)
        else:
            picture.text(left - 10, top + 14.5, bar.name, at="end", more=more)
        for part in bar.parts:
            picture.box(left, top, part.value * scale, HIGH, part.fill, title=part.note, round=1.5)
            left += part.value * scale
        picture.text(left + 7, top + 14.5, bar.text, more=more)
    return y + step(picture) * len(bars)
