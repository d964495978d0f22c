"""Tuning: what variants that differ in tuned keys only were measured to take, and the choice that follows from it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from precast.loader.errors import FormatError
from precast.loader.fast_start.values import Immutable, replace
from precast.loader.format import fields
from precast.loader.format.config import canonical
from precast.loader.format.patterns import NAME, SHA256, Pattern
from precast.loader.format.target import Capability, parse_capability

_GPU = Pattern(r"[ -~]{1,128}", lambda t: 0 < len(t) <= 128 and t.isascii() and t.isprintable())
LONGEST = 1e12  # microseconds: eleven days
_SIZE = 2**63 - 1


class Measured(Immutable, kw_only=True):
    """One problem on one GPU: the microseconds that a launch took, by the key of the artifact."""

    gpu: str
    capability: Capability
    problem: Mapping[str, int]
    times: Mapping[str, float]

    @property
    def place(self) -> tuple[str, str, bytes]:
        """What one table has at most once; the table is sorted by it."""
        return str(self.capability), self.gpu, canonical(dict(self.problem))

    def to_json(self) -> dict[str, Any]:
        return {
            "capability": str(self.capability),
            "gpu": self.gpu,
            "problem": dict(self.problem),
            "times": dict(self.times),
        }

    @classmethod
    def parse(cls, value: object) -> Measured:
        data = fields.known(fields.as_object(value), ("gpu", "capability", "problem", "times"))
        times = fields.table(data, "times", _time, most=10_000)
        for key in times:
            if not SHA256.admits(key):
                raise FormatError("not an artifact's key", f"times.{key[:80]}")
        return cls(
            gpu=fields.matching(data, "gpu", _GPU, "the name of a GPU"),
            capability=fields.parsed(data, "capability", lambda v: parse_capability(fields.text(v))),
            problem=fields.parsed(data, "problem", parse_problem),
            times=times,
        )


def parse_problem(value: object) -> dict[str, int]:
    """A problem: sizes by name."""
    problem = {n: fields.count({n: v}, n, most=_SIZE) for n, v in fields.as_object(value).items()}
    if not problem or len(problem) > 32 or not all(NAME.admits(n) for n in problem):
        raise FormatError("not a problem: sizes by name, at least one and at most 32")
    return problem


def _time(value: object) -> float:
    if type(value) not in (int, float) or not 0 < value <= LONGEST:  # type: ignore[operator]
        raise FormatError("expected a positive number of microseconds")
    return float(value)  # type: ignore[arg-type]


def parse_table(rows: Iterable[object], known: Collection[str]) -> tuple[Measured, ...]:
    """The table of an op. It may name the op's own artifacts only, and one problem on one GPU once."""
    table: list[Measured] = []
    places: set[tuple[str, str, bytes]] = set()
    for position, row in enumerate(rows):
        try:
            one = Measured.parse(row)
            if one.place in places:
                raise FormatError("this problem occurs twice for this GPU")
            for key in one.times:
                if key not in known:
                    raise FormatError("no artifact has this key", f"times.{key}")
        except FormatError as error:
            raise error.within(position).within("tuning") from None
        places.add(one.place)
        table.append(one)
    return tuple(table)


def joined(tables: Iterable[Iterable[Measured]], keys: Collection[str]) -> tuple[Measured, ...]:
    """Some tables as one, of these artifacts only. Of two times of one artifact for one problem on one GPU the lesser
    stays, since a disturbance only adds time; so the order of the tables does not matter."""
    rows: dict[tuple[str, str, bytes], Measured] = {}
    for row in (row for table in tables for row in table):
        old = rows[row.place].times if row.place in rows else {}
        new = {k: min(t, old.get(k, t)) for k, t in row.times.items() if k in keys}
        if old or new:
            rows[row.place] = replace(row, times={**old, **new})
    return tuple(rows[place] for place in sorted(rows))


def distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """How far two problems with the same axes are apart: the root of the summed squares of their ratios' logarithms.

    >>> distance({"m": 7}, {"m": 15}), distance({"m": 0, "n": 1}, {"m": 0, "n": 1})
    (1.0, 0.0)
    """
    return math.sqrt(sum((math.log2(one[name] + 1) - math.log2(other[name] + 1)) ** 2 for name in one))


class Choice(Immutable):
    """The artifact that was fastest in one measurement; ``gpu`` is the machine's, where it is known."""

    key: str
    measured: Measured
    gpu: str | None = None

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in sorted(self.measured.problem.items()))
        told = f"{self.measured.times[self.key]:g} us at {sizes} on {self.measured.gpu}"
        if self.gpu is None or self.gpu == self.measured.gpu:
            return told
        return f"{told}, which is another GPU than this {self.gpu}: measure here with 'precast bench'"


def fastest(
    table: Iterable[Measured],
    problem: Mapping[str, int],
    keys: Iterable[str],
    *,
    gpu: str | None,
    capability: Capability | None,
) -> Choice | None:
    """The fastest of some artifacts for a problem, by the nearest measurement; None where nothing was measured.

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
        Among equally near measurements, the one that comes first in the table's order.
    """
    order = list(keys)
    usable = [m for m in table if m.problem.keys() == problem.keys() and not m.times.keys().isdisjoint(order)]
    near = [m for m in usable if m.gpu == gpu] or [m for m in usable if m.capability == capability]
    if not near:
        return None
    best = min(near, key=lambda m: (distance(problem, m.problem), m.place))
    return Choice(min((k for k in order if k in best.times), key=lambda k: best.times[k]), best, gpu)
