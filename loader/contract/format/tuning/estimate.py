"""The estimate: which variant is fastest on a problem, by measurements of this and other problems.

For a measured problem, its own row decides. Between measurements, each of the nearest rows says what every variant
takes for a unit of work, beyond the time of a launch, and nearer rows have more weight. Where tilings are known, work
is counted in whole waves of tiles: so a variant whose last wave of tiles is almost empty on this problem is estimated
to be slow, even if it was fast on a problem close by. How near a row is depends on the variant, then: where its tiles
fill their waves otherwise than here, relative to those of the other variants, its time says less.
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
_NEAR = 0.01  # added to the square of a distance, so that two rows that almost match the problem both count
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
        self._axes = sorted(set(axes))
        usable = [t for t in tables if t.rows and sorted(t.axes) == self._axes and not self._keys.isdisjoint(t.keys)]
        near = [t for t in usable if t.gpu == gpu] or [t for t in usable if t.capability == capability]
        self._places: list[tuple[tuple[int, ...], str, Capability]] = []  # the order of rows that are equally near
        self._sources: list[tuple[Table, int]] = []
        for table in near:
            order = [table.axes.index(axis) for axis in self._axes]
            for position, sizes in enumerate(table.problems()):
                self._places.append((tuple([sizes[at] for at in order]), table.gpu, table.capability))
                self._sources.append((table, position))
        if len(set(self._places)) != len(self._places):
            raise FormatError(REPEATED, "tuning")
        self._points = [_point(sizes) for sizes, _, _ in self._places]
        self._rows: dict[int, _Row] = {}
        self._works: dict[
            int, _Work
        ] = {}  # by the identity of a tiling: those of a table are few, and live as its rows
        self._no_work = _Work(None, self._axes)

    def fastest(self, problem: Mapping[str, int]) -> Choice | None:
        """The artifact that should be fastest on a problem; None if nothing was measured.

        It is one of those with a time in any of the nearest rows. If several rows are equally near, the one with the
        smallest sizes counts.
        """
        rows = self._nearest(_point([problem[axis] for axis in self._axes]))
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
        works = dict.fromkeys(keys, self._no_work)
        if all(key in tilings for key in keys):  # a time that is carried over and one that is not cannot be compared
            works = {key: self._work(tilings[key]) for key in keys}
        here = {work: work.log_of(problem) for work in set(works.values())}
        sums, weights = dict.fromkeys(keys, 0.0), dict.fromkeys(keys, 0.0)
        for distance, row in rows:
            growth = {work: amount - row.log_work(work) for work, amount in here.items()}
            usual = sum(growth[works[key]] for key in keys) / len(keys)
            square = distance * distance + _NEAR
            near = {work: 1 / (square + (_UNLIKE * (grown - usual)) ** 2) for work, grown in growth.items()}
            for key, rest in row.log_rests(keys):
                work = works[key]
                sums[key] += near[work] * (rest + growth[work])
                weights[key] += near[work]
        best = min(keys, key=lambda key: sums[key] / weights[key])
        measured = next(row.measured for _, row in rows if best in row.measured.times)
        return Choice(best, measured, self._gpu, exact=False)

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


def _point(sizes: Sequence[int]) -> list[float]:
    """Sizes as a point, whose distance to another depends on their ratios."""
    return [math.log2(size + 1) for size in sizes]


class _Work:
    """The work of a tiling on problems, which several artifacts share; without a tiling, as much on all problems."""

    __slots__ = ("_others", "_tiling")

    def __init__(self, tiling: Tiling | None, axes: Iterable[str]) -> None:
        self._tiling, self._others = tiling, [axis for axis in axes if tiling and axis not in tiling.tile]

    def log_of(self, problem: Mapping[str, int]) -> float:
        """The logarithm of its amount, in units that are the same for all problems: an axis that is not cut, such as k,
        is work of each tile."""
        work = self._tiling.work(problem) if self._tiling else 1.0
        for axis in self._others:
            work *= max(1, problem[axis])
        return math.log(work)


class _Row:
    """A measurement, with the logarithms of what it says: the rest of each artifact's time, and the amounts of works.

    On another GPU an artifact has another tiling, so works are not those of artifacts.
    """

    __slots__ = ("_rests", "_works", "measured")

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self._rests = {key: _log_rest(time) for key, time in measured.times.items()}
        self._works: dict[_Work, float] = {}

    def log_work(self, work: _Work) -> float:
        """The amount of a work on the problem of this row."""
        amount = self._works.get(work)
        if amount is None:
            amount = self._works[work] = work.log_of(self.measured.problem)
        return amount

    def log_rests(self, keys: Sequence[str]) -> Iterator[tuple[str, float]]:
        """For each artifact the time beyond a launch; one that has no time here counts as slower than the best."""
        times = self.measured.times
        lacking = _log_rest(_LACKING * min(times[key] for key in keys if key in times))
        for key in keys:
            yield key, self._rests.get(key, lacking)


def _log_rest(time: float) -> float:
    return math.log(max(time - _LAUNCH, _REST * time))
