"""From a value to a place along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from math import log


@dataclass(frozen=True, slots=True)
class Scale:
    """Values between ``least`` and ``most`` at places between ``start`` and ``end``, in steps of a factor."""

    least: float
    most: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value; one outside is drawn at the edge.

        >>> Scale(1, 100, 0, 200)(10), Scale(1, 100, 0, 200)(1000)
        (100.0, 200.0)
        """
        inside = min(max(value, self.least), self.most)
        return self.start + (self.end - self.start) * log(inside / self.least) / log(self.most / self.least)


def amount(count: float) -> str:
    """A number of bytes, short.

    >>> amount(2e6), amount(1e9), amount(5e5)
    ('2 MB', '1 GB', '0.5 MB')
    """
    return f"{count / 1e9:g} GB" if count >= 1e9 else f"{count / 1e6:g} MB"
