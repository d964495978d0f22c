"""The estimate: which of some variants is fastest on a problem, by measurements of others.

A problem that was measured is chosen for by its own row. Between measurements, the times of the rows nearest to it are
carried over: each variant's time changes by the work that its tiles are, here and there, and what is then said by
nearer rows counts for more. So a variant whose last wave of tiles is almost empty here is seen to be slow, though it
was fast a little to the side.
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

# Chosen on matrix products of sizes that were left out of the measurements. Others near them do about as well.
_ROWS = 8
_FALL = 4  # a row counts by its distance to the power of this
_NEAR = 0.05  # added to a distance, so that two rows that are almost at the problem share it


def distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """How far two problems with the same axes are apart: the root of the summed squares of their ratios' logarithms.

    >>> distance({"m": 7}, {"m": 15}), distance({"m": 0, "n": 1}, {"m": 0, "n": 1})
    (1.0, 0.0)
    """
    axes = sorted(one)
    return math.dist(_place(one, axes), _place(other, axes))


def _place(problem: Mapping[str, int], axes: Iterable[str]) -> list[float]:
    return [math.log2(problem[axis] + 1) for axis in axes]


class Choice(Immutable):
    """The artifact that is fastest by measurements; ``gpu`` is the machine's, where it is known.

    ``measured`` is the nearest measurement, which is ``exact`` where it is of this very problem.
    """

    key: str
    measured: Measured
    gpu: str | None = None
    exact: bool = True

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in sorted(self.measured.problem.items()))
        told = f"{self.measured.times[self.key]:g} us at {sizes} on {self.measured.gpu}"
        if not self.exact:
            told = f"by the nearest measurements, of which the first is {told}"
        if self.gpu is None or self.gpu == self.measured.gpu:
            return told
        return f"{told}, which is another GPU than this {self.gpu}: measure here with 'precast tune'"


def fastest(
    table: Iterable[Measured],
    problem: Mapping[str, int],
    keys: Iterable[str],
    *,
    gpu: str | None,
    capability: Capability | None,
) -> Choice | None:
    """The artifact that should be fastest on a problem; None where nothing was measured. See ``Estimate``."""
    return Estimate(table, problem, keys, gpu=gpu, capability=capability).fastest(problem)


class Estimate:
    """What measurements say of some artifacts, for all problems with the same axes: made once, asked for each problem.

    Parameters
    ----------
    table
        The measurements of an op.
    axes
        The names of the sizes of the problems. Only measurements with the same axes count.
    keys
        The artifacts to choose among, in the author's order, which settles a tie.
    gpu, capability
        The machine's. Measurements on a GPU of this name are taken alone where there are any that count, else those
        on a GPU of this capability, which the choice then says. A slice of a GPU has a name of its own.
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
        # Of equally near ones the first decides, whatever the order of the table.
        near.sort(key=lambda m: ([m.problem[axis] for axis in self._axes], m.gpu, m.capability))
        self._rows = [_Row(m, _place(m.problem, self._axes), self._order) for m in near]

    def fastest(self, problem: Mapping[str, int]) -> Choice | None:
        """The artifact that should be fastest on a problem; None where nothing was measured.

        It is one of those that the nearest row has a time of. Among equally near rows, the one of the least sizes.
        """
        if not self._rows:
            return None
        place = _place(problem, self._axes)
        ranked = [(math.dist(place, row.place), position) for position, row in enumerate(self._rows)]
        rows = [(apart, self._rows[position]) for apart, position in heapq.nsmallest(_ROWS, ranked)]
        least, first = rows[0]
        nearest = first.measured
        among = [key for key in self._order if key in nearest.times]
        if least == 0:
            return Choice(min(among, key=lambda key: nearest.times[key]), nearest, self._gpu)
        losses = dict.fromkeys(among, 0.0)
        work: dict[int, float] = {}  # at the problem, by the identity of a tiling: rows of one table share them
        for apart, row in rows:
            weight = (apart + _NEAR) ** -_FALL
            for key, loss in row.losses(problem, work, among):
                losses[key] += weight * loss
        return Choice(min(losses.items(), key=itemgetter(1))[0], nearest, self._gpu, exact=False)


class _Row:
    """A measurement: where it stands among others, and the logarithm of each time for a unit of work.

    The work that the tiles are counts only where it is known of every artifact: a time that was carried over and one
    that was not cannot be compared.
    """

    __slots__ = ("_keys", "_logs", "_tilings", "measured", "place")

    def __init__(self, measured: Measured, place: list[float], keys: Iterable[str]) -> None:
        self.measured, self.place, self._keys = measured, place, keys
        self._logs: dict[str, float] = {}
        self._tilings: dict[str, Tiling] = {}

    def losses(
        self, problem: Mapping[str, int], work: dict[int, float], among: Iterable[str]
    ) -> Iterator[tuple[str, float]]:
        """By how much each artifact falls behind the best of them on a problem, as a logarithm.

        One that has no time here counts as the slowest.
        """
        if not self._logs:
            self._take()
        carried = {key: self._logs[key] for key in among if key in self._logs}
        if not carried:
            return
        for key, tiling in self._tilings.items():
            if key in carried:
                if id(tiling) not in work:
                    work[id(tiling)] = math.log(tiling.work(problem))
                carried[key] += work[id(tiling)]
        best, worst = min(carried.values()), max(carried.values())
        for key in among:
            yield key, carried.get(key, worst) - best

    def _take(self) -> None:
        """Work out the logarithms, of a row that is near some problem."""
        times, tilings = self.measured.times, self.measured.tilings
        known = [key for key in self._keys if key in times]
        if all(key in tilings for key in known):
            self._tilings = {key: tilings[key] for key in known}
        for key in known:
            here = math.log(tilings[key].work(self.measured.problem)) if self._tilings else 0.0
            self._logs[key] = math.log(times[key]) - here
