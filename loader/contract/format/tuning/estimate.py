"""The estimate: which variant is fastest on a problem, by measurements of this and other problems.

For a measured problem, its own row decides. Between measurements, each of the nearest rows says how long every variant
would take on this problem, and nearer rows have more weight. Where tilings are known, a variant's time there is that of
a launch, which is always the same, and a rest, which grows with the whole waves of its tiles: so a variant whose last
wave of tiles is almost empty on this problem is estimated to be slow, even if it was fast on a problem close by. How
near a row is depends on the variant, then: where its tiles fill their waves otherwise than here, relative to those of
the other variants, its time says less. Sizes that no tiling cuts count half: a kernel goes through them in small steps.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.table import REPEATED, Table
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

# Chosen on matrix products: for the sizes of each layer, by the measurements of all other layers. Other values near
# these do about as well.
_ROWS = 20
_FALL = 3  # the weight of a row falls with this power of its distance
_NEAR = 0.05  # added to a distance, so that two rows that almost match the problem both count
_UNCUT = 0.5  # the weight of an axis that no tiling cuts, in a distance
_UNLIKE = 4.0  # the distance of a row for a variant whose work grows e times as much as that of the others from there
_LAUNCH = 6.0  # microseconds of any launch; what does not take twice as long has a rest, too
_REST = 0.3  # the least share of a time that is the rest
_LACKING = 1.3  # times the best of a row: what a variant took that was not measured there, since it seemed hopeless


class Choice(Immutable):
    """The artifact that is fastest by measurements. ``gpu`` is the name of the machine's GPU, if it is known.

    ``measured`` is the nearest measurement of it; it is ``exact`` if it is of this problem.
    """

    key: str
    measured: Measured
    gpu: str | None = None
    exact: bool = True

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in sorted(self.measured.problem.items()))
        text = f"{self.measured.times[self.key]:g} us at {sizes} on {self.measured.gpu}"
        if not self.exact:
            text = f"estimated from the nearest measurements; the nearest is {text}"
        if self.gpu is None or self.gpu == self.measured.gpu:
            return text
        return f"{text}, which is another GPU than this {self.gpu}: measure here with 'precast tune measure'"


class Estimate:
    """An estimator for some artifacts and all problems with the same axes.

    Parameters
    ----------
    tables
        The measurements of an op.
    axes
        The names of the sizes of the problems. Only measurements with the same axes count.
    keys
        The artifacts to choose among, in the author's order, which settles a tie.
    gpu, capability
        The machine's. If there are measurements on a GPU of this name, only they count; else those on a GPU of this
        capability, which the text of the choice then mentions. A slice of a GPU has a name of its own.

    Raises a FormatError, here or later, for a row that is not valid. Rows are parsed when they are near.
    """

    def __init__(
        self,
        tables: Iterable[Table],
        axes: Iterable[str],
        keys: Iterable[str],
        *,
        gpu: str | None,
        capability: Capability | None,
    ) -> None:
        self._order, self._gpu = list(keys), gpu
        self._keys = frozenset(self._order)
        names = sorted(set(axes))
        usable = [t for t in tables if t.rows and sorted(t.axes) == names and not self._keys.isdisjoint(t.keys)]
        near = [t for t in usable if t.gpu == gpu] or [t for t in usable if t.capability == capability]
        cut = {axis for table in near for tiling in table.tilings.values() for axis in tiling.tile}
        self._axes = {axis: _UNCUT if cut and axis not in cut else 1.0 for axis in names}
        self._places: list[tuple[tuple[int, ...], str, Capability]] = []  # the order of rows that are equally near
        self._sources: list[tuple[Table, int]] = []
        for table in near:
            order = [table.axes.index(axis) for axis in names]
            for position, sizes in enumerate(table.problems()):
                self._places.append((tuple([sizes[at] for at in order]), table.gpu, table.capability))
                self._sources.append((table, position))
        if len(set(self._places)) != len(self._places):
            raise FormatError(REPEATED, "tuning")
        self._points = [self._point(sizes) for sizes, _, _ in self._places]
        self._rows: dict[int, _Row] = {}
        # By the identity of a tiling: those of a table are few, and live as its rows.
        self._works: dict[int, _Work] = {}

    def fastest(self, problem: Mapping[str, int]) -> Choice | None:
        """The artifact that should be fastest on a problem; None if nothing was measured.

        It is one of those with a time in any of the nearest rows. If several rows are equally near, the one with the
        smallest sizes counts.
        """
        rows = self._nearest(self._point([problem[axis] for axis in self._axes]))
        if not rows:
            return None
        least, first = rows[0]
        nearest = first.measured
        if least == 0:
            keys = [key for key in self._order if key in nearest.times]
            return Choice(min(keys, key=lambda key: nearest.times[key]), nearest, self._gpu)
        tilings: dict[str, Tiling] = {}
        for _, row in reversed(rows):
            tilings.update(row.measured.tilings)
        keys = [key for key in self._order if any(key in row.measured.times for _, row in rows)]
        works = None
        if all(key in tilings for key in keys):  # a time that is carried over and one that is not cannot be compared
            works = {key: self._work(tilings[key]) for key in keys}
        took = dict.fromkeys(keys, 0.0)
        weights = dict.fromkeys(keys, 0.0)
        here = {work: work.of(problem) for work in set(works.values())} if works else {}
        for distance, row in rows:
            for key, weight, estimated in row.estimates(keys, works, here, distance):
                took[key] += weight * math.log(estimated)
                weights[key] += weight
        best = min(keys, key=lambda key: took[key] / weights[key])
        measured = next(row.measured for _, row in rows if best in row.measured.times)
        return Choice(best, measured, self._gpu, exact=False)

    def _point(self, sizes: Sequence[int]) -> list[float]:
        """Sizes as a point, whose distance to another depends on their ratios. Axes have weights."""
        return [weight * math.log2(size + 1) for weight, size in zip(self._axes.values(), sizes, strict=True)]

    def _nearest(self, point: list[float]) -> list[tuple[float, _Row]]:
        """The nearest rows that have a time of any of the artifacts, with their distances."""
        distances = [math.dist(point, other) for other in self._points]
        ranked = list(zip(distances, self._places, range(len(distances)), strict=True))
        rows = self._having_times(heapq.nsmallest(_ROWS, ranked))
        return rows if len(rows) == min(_ROWS, len(ranked)) else self._having_times(sorted(ranked))

    def _having_times(self, ranked: Iterable[tuple[float, Any, int]]) -> list[tuple[float, _Row]]:
        rows: list[tuple[float, _Row]] = []
        for distance, _, position in ranked:
            row = self._rows.get(position)
            if row is None:
                table, at = self._sources[position]
                row = self._rows[position] = _Row(table.measured(at))
            if not self._keys.isdisjoint(row.measured.times):
                rows.append((distance, row))
                if len(rows) == _ROWS:
                    break
        return rows

    def _work(self, tiling: Tiling) -> _Work:
        """The work of a tiling: the same object each time, since rows remember what they found for it."""
        work = self._works.get(id(tiling))
        if work is None:
            work = self._works[id(tiling)] = _Work(tiling, self._axes)
        return work


class _Work:
    """The work of a tiling on problems. Several artifacts have the same tiling."""

    __slots__ = ("_others", "_tiling")

    def __init__(self, tiling: Tiling, axes: Iterable[str]) -> None:
        self._tiling, self._others = tiling, [axis for axis in axes if axis not in tiling.tile]

    def of(self, problem: Mapping[str, int]) -> float:
        """In units that are the same for all problems: an axis that is not cut, such as k, is work of each tile."""
        work = self._tiling.work(problem)
        for axis in self._others:
            work *= max(1, problem[axis])
        return work


class _Row:
    """A measurement, and of each artifact its work, the rest of its time, and the amount of
    that work there. On another GPU an artifact has another tiling, so these count only for that work.
    """

    __slots__ = ("_units", "measured")

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self._units: dict[str, tuple[_Work, float, float]] = {}

    def estimates(
        self, keys: Sequence[str], works: Mapping[str, _Work] | None, here: Mapping[_Work, float], distance: float
    ) -> Iterator[tuple[str, float, float]]:
        """For each artifact its weight and its microseconds on a problem at a distance, by this row alone; ``here`` has
        the works of that problem."""
        times = self.measured.times
        lacking = _LACKING * min(times[key] for key in keys if key in times)
        if works is None:
            weight = (distance + _NEAR) ** -_FALL
            for key in keys:
                yield key, weight, times.get(key, lacking)
            return
        growth: dict[_Work, float] = {}
        for key in keys:
            work = works[key]
            unit = self._units.get(key)
            if unit is None or unit[0] is not work:
                time, there = times.get(key, lacking), work.of(self.measured.problem)
                unit = self._units[key] = work, max(time - _LAUNCH, _REST * time), there
            if work not in growth:
                growth[work] = math.log(here[work] / unit[2])
        usual = sum(growth[works[key]] for key in keys) / len(keys)
        square = distance * distance
        near = {
            work: (math.sqrt(square + (_UNLIKE * (grown - usual)) ** 2) + _NEAR) ** -_FALL
            for work, grown in growth.items()
        }
        for key in keys:
            work, rest, there = self._units[key]
            yield key, near[work], _LAUNCH + rest * here[work] / there
