"""The estimate: which variant is fastest on a problem, by measurements of this and other problems.

For a measured problem, its own row decides. Between measurements, the times of the nearest rows are scaled: each
variant's time is multiplied by the work of its tiles on this problem, divided by their work on the measured one, and
nearer rows have more weight. So a variant whose last wave of tiles is almost empty on this problem is estimated to be
slow, even if it was fast on a problem close by.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tiling import Tiling
from precast.loader.contract.format.tuning import Measured
from precast.loader.contract.values import Immutable

# Chosen on matrix products of sizes that were left out of the measurements. Other values near these do about as well.
_ROWS = 8
_FALL = 4  # the weight of a row falls with this power of its distance
_NEAR = 0.05  # added to a distance, so that two rows that almost match the problem both count


def _point(problem: Mapping[str, int], axes: Iterable[str]) -> list[float]:
    """A problem as a point, whose distance to another depends on the ratios of their sizes."""
    return [math.log2(problem[axis] + 1) for axis in axes]


class Choice(Immutable):
    """The artifact that is fastest by measurements. ``gpu`` is the name of the machine's GPU, if it is known.

    ``measured`` is the nearest measurement; it is ``exact`` if it is of this problem.
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
    table
        The measurements of an op.
    axes
        The names of the sizes of the problems. Only measurements with the same axes count.
    keys
        The artifacts to choose among, in the author's order, which settles a tie.
    gpu, capability
        The machine's. If there are measurements on a GPU of this name, only they count; else those on a GPU of this
        capability, which the text of the choice then mentions. A slice of a GPU has a name of its own.
    """

    def __init__(
        self,
        table: Iterable[Measured],
        axes: Iterable[str],
        keys: Iterable[str],
        *,
        gpu: str | None,
        capability: Capability | None,
    ) -> None:
        self._axes, self._order, self._gpu = sorted(axes), list(keys), gpu
        names = set(self._axes)
        usable = [m for m in table if m.problem.keys() == names and not m.times.keys().isdisjoint(self._order)]
        near = [m for m in usable if m.gpu == gpu] or [m for m in usable if m.capability == capability]
        # The first of equally near ones decides, whatever the order of the table.
        near.sort(key=lambda m: ([m.problem[axis] for axis in self._axes], m.gpu, m.capability))
        self._rows = [_Row(m, _point(m.problem, self._axes), self._order) for m in near]

    def fastest(self, problem: Mapping[str, int]) -> Choice | None:
        """The artifact that should be fastest on a problem; None if nothing was measured.

        It is one of those with a time in the nearest row. If several are equally near, the one with the smallest sizes
        counts.
        """
        if not self._rows:
            return None
        point = _point(problem, self._axes)
        ranked = [(math.dist(point, row.point), position) for position, row in enumerate(self._rows)]
        rows = [(distance, self._rows[position]) for distance, position in heapq.nsmallest(_ROWS, ranked)]
        least, first = rows[0]
        nearest = first.measured
        keys = [key for key in self._order if key in nearest.times]
        if least == 0:
            return Choice(min(keys, key=lambda key: nearest.times[key]), nearest, self._gpu)
        losses = dict.fromkeys(keys, 0.0)
        work: dict[
            int, float
        ] = {}  # on this problem, by the identity of a tiling, since the rows of a table share tilings
        for distance, row in rows:
            weight = (distance + _NEAR) ** -_FALL
            for key, loss in row.losses(problem, work, keys):
                losses[key] += weight * loss
        return Choice(min(losses.items(), key=itemgetter(1))[0], nearest, self._gpu, exact=False)


class _Row:
    """A measurement: its point among the others, and the logarithm of each time for a unit of work.

    Work counts only if the tiling of every artifact is known: a scaled time and one that is not scaled cannot be
    compared.
    """

    __slots__ = ("_keys", "_logs", "_tilings", "measured", "point")

    def __init__(self, measured: Measured, point: list[float], keys: Iterable[str]) -> None:
        self.measured, self.point, self._keys = measured, point, keys
        self._logs: dict[str, float] = {}
        self._tilings: dict[str, Tiling] = {}

    def losses(
        self, problem: Mapping[str, int], work: dict[int, float], keys: Iterable[str]
    ) -> Iterator[tuple[str, float]]:
        """How much slower each artifact is than the best of them on a problem, as a logarithm.

        An artifact without a time in this row counts as the slowest.
        """
        if not self._logs:
            self._take()
        scaled = {key: self._logs[key] for key in keys if key in self._logs}
        if not scaled:
            return
        for key, tiling in self._tilings.items():
            if key in scaled:
                if id(tiling) not in work:
                    work[id(tiling)] = math.log(tiling.work(problem))
                scaled[key] += work[id(tiling)]
        best, worst = min(scaled.values()), max(scaled.values())
        for key in keys:
            yield key, scaled.get(key, worst) - best

    def _take(self) -> None:
        """Compute the logarithms. Only rows that are near some problem need them."""
        times, tilings = self.measured.times, self.measured.tilings
        keys = [key for key in self._keys if key in times]
        if all(key in tilings for key in keys):
            self._tilings = {key: tilings[key] for key in keys}
        for key in keys:
            done = math.log(tilings[key].work(self.measured.problem)) if self._tilings else 0.0
            self._logs[key] = math.log(times[key]) - done
