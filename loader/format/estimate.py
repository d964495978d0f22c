"""The estimate: which of some variants is fastest on a problem, by measurements of others.

A problem that was measured is chosen for by its own row. Between measurements, the times of the rows nearest to it are
carried over: each variant's time changes by the work that its tiles are, here and there, and what is then said by
nearer rows counts for more. So a variant whose last wave of tiles is almost empty here is seen to be slow, though it
was fast a little to the side.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence

from precast.loader.fast_start.values import Immutable
from precast.loader.format.target import Capability
from precast.loader.format.tuning import Measured

# Chosen on matrix products of sizes that were left out of the measurements. Others near them do about as well.
_ROWS = 8
_FALL = 4  # a row counts by its distance to the power of this
_NEAR = 0.05  # added to a distance, so that two rows that are almost at the problem share it


def distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """How far two problems with the same axes are apart: the root of the summed squares of their ratios' logarithms.

    >>> distance({"m": 7}, {"m": 15}), distance({"m": 0, "n": 1}, {"m": 0, "n": 1})
    (1.0, 0.0)
    """
    return math.sqrt(sum([math.log2((one[name] + 1) / (other[name] + 1)) ** 2 for name in one]))


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
    """The artifact that should be fastest on a problem; None where nothing was measured.

    Parameters
    ----------
    table
        The measurements of an op.
    problem
        The sizes at hand. Only measurements with the same axes count.
    keys
        The artifacts to choose among, in the author's order, which settles a tie.
    gpu, capability
        The machine's. Measurements on a GPU of this name are taken alone where there are any that count, else those
        on a GPU of this capability, which the choice then says. A slice of a GPU has a name of its own.

    Returns
    -------
    Choice or None
        One of the artifacts that the nearest row has a time of. Among equally near rows, the one of the least sizes.
    """
    order = list(keys)
    usable = [m for m in table if m.problem.keys() == problem.keys() and not m.times.keys().isdisjoint(order)]
    near = [m for m in usable if m.gpu == gpu] or [m for m in usable if m.capability == capability]
    if not near:
        return None
    axes = sorted(problem)
    ranked = ((distance(problem, m.problem), [m.problem[a] for a in axes], m.gpu, m) for m in near)
    rows = heapq.nsmallest(_ROWS, ranked, key=lambda row: row[:3])
    least, _, _, nearest = rows[0]
    among = [key for key in order if key in nearest.times]
    if least == 0:
        return Choice(min(among, key=lambda key: nearest.times[key]), nearest, gpu)
    losses = _losses([(apart, row) for apart, *_, row in rows], problem, among)
    return Choice(min(among, key=lambda key: losses[key]), nearest, gpu, exact=False)


def _losses(
    rows: Sequence[tuple[float, Measured]], problem: Mapping[str, int], keys: Sequence[str]
) -> dict[str, float]:
    """By how much each artifact falls behind the best of them, as a sum of logarithms over the rows by their weight.

    One that a row has no time of counts there as its slowest.
    """
    losses = dict.fromkeys(keys, 0.0)
    work: dict[int, float] = {}  # at the problem, by the identity of a tiling: rows of one table share them
    for apart, row in rows:
        times = _carried(row, problem, [key for key in keys if key in row.times], work)
        if not times:
            continue
        best, worst = min(times.values()), max(times.values())
        weight = (apart + _NEAR) ** -_FALL
        for key in keys:
            losses[key] += weight * math.log(times.get(key, worst) / best)
    return losses


def _carried(
    row: Measured, problem: Mapping[str, int], keys: Sequence[str], work: dict[int, float]
) -> dict[str, float]:
    """What the measured times would be for the problem, up to a factor that is the same for all.

    The tiles count only where those of every artifact are known: a time that changed and one that did not cannot be
    compared.
    """
    if not row.tilings.keys() >= set(keys):
        return {key: row.times[key] for key in keys}
    carried = {}
    for key in keys:
        tiling = row.tilings[key]
        if id(tiling) not in work:
            work[id(tiling)] = tiling.work(problem)
        carried[key] = row.times[key] * work[id(tiling)] / tiling.work(row.problem)
    return carried
