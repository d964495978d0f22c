"""Pruning: finds the candidates that no measured problem needs, because others are nearly as fast.

The author's first candidate of each contest is kept, and so are candidates without measurements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.build.measurements.tuning_file import Group, TuningFile, config_json
from precast.build.plan.entry import Entry
from precast.build.plan.manifest import Manifest
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format.config import canonical, config_text
from precast.loader.resolve.cache import Cache
from precast.measure.tuning.contest import Contest, Contestant, matrices_of

Times = Mapping[Any, Mapping[bytes, float]]
"""For each problem, the times of candidates by name."""


def near_best(times: Times, within: float) -> set[bytes]:
    """The candidates whose time is within a share of the best for some problem.

    >>> near_best({1: {b"a": 10.0, b"b": 10.1, b"c": 11.0}}, 0.02) == {b"a", b"b"}
    True
    """
    return {name for row in times.values() for name in _near(row, within)}


def cover(times: Times, within: float, first: Collection[bytes] = ()) -> set[bytes]:
    """A small set, including ``first``, that has a candidate within a share of the best for each problem.

    It is greedy: the candidate for most of the remaining problems is taken next; of equal ones that with the least mean
    time relative to the best, then the first by name.

    >>> cover({1: {b"a": 10.0, b"b": 10.1}, 2: {b"b": 7.0, b"c": 7.0}}, 0.02) == {b"b"}
    True
    """
    chosen = set(first)
    open_ = {problem: near for problem, row in times.items() if not (near := _near(row, within)) & chosen}
    while open_:
        names = sorted({name for near in open_.values() for name in near})
        best = min(names, key=lambda name: (-sum(name in near for near in open_.values()), _excess(times, name), name))
        chosen.add(best)
        open_ = {problem: near for problem, near in open_.items() if best not in near}
    return chosen


def _near(row: Mapping[bytes, float], within: float) -> set[bytes]:
    best = min(row.values(), default=0.0)
    return {name for name, time in row.items() if time <= best * (1 + within)}


def _excess(times: Times, name: bytes) -> float:
    """The mean time of a candidate relative to the best, over the problems for which it has a time."""
    shares = [row[name] / min(row.values()) for row in times.values() if name in row]
    return sum(shares) / len(shares)


@dataclass(frozen=True, slots=True)
class Pruned:
    """One contest: the candidates that are kept, and those that are dropped."""

    contest: Contest
    problems: int
    dropped: tuple[Contestant, ...]

    @property
    def kept(self) -> tuple[Contestant, ...]:
        return tuple(contestant for contestant in self.contest.contestants if contestant not in self.dropped)

    @property
    def stored(self) -> int:
        """The number of bytes that are saved."""
        return sum(contestant.stored for contestant in self.dropped)

    def to_json(self) -> dict[str, Any]:
        return {
            "op": self.contest.op,
            "config": config_json(self.contest.config),
            "target": str(self.contest.target),
            "problems": self.problems,
            "kept": [config_json(contestant.tuned) for contestant in self.kept],
            "dropped": [config_json(contestant.tuned) for contestant in self.dropped],
            "stored": self.stored,
        }


def prune(contests: Iterable[Contest], file: TuningFile, *, within: float, smallest: bool) -> list[Pruned]:
    """The candidates that each contest needs according to a file; with ``smallest``, a small set of them.

    Measurements on several GPUs count as separate problems. Those of other device code count, too: the compiler seldom
    changes the ranking, and a maintainer reviews the result.
    """
    groups: dict[str, list[Group]] = {}
    for group in file.groups:
        name = canonical([group.op, config_json(group.config), str(group.target)]).decode()
        groups.setdefault(name, []).append(group)
    return [_pruned(contest, groups.get(contest.name, []), within, smallest) for contest in contests]


def _pruned(contest: Contest, groups: Sequence[Group], within: float, smallest: bool) -> Pruned:
    here = {candidate.identity for candidate in contest.contestants}
    times: dict[object, dict[bytes, float]] = {}
    for group in groups:
        for candidate in group.candidates:
            for sizes, time in candidate.times.items() if candidate.identity in here else ():
                times.setdefault((group.gpu, sizes), {})[candidate.identity] = time
    measured = {name for row in times.values() for name in row}
    first = {min(contest.contestants, key=lambda candidate: candidate.rank).identity}
    needed = cover(times, within, first) if smallest else near_best(times, within) | first
    dropped = tuple(
        candidate
        for candidate in contest.contestants
        if candidate.identity in measured and candidate.identity not in needed
    )
    return Pruned(contest, len(times), dropped)


def exclusions(manifests: Iterable[Manifest], cache: Cache, pruned: Iterable[Pruned]) -> list[str]:
    """The lines that exclude what is not needed, for each entry after a comment with its location.

    Rows of the matrix are dropped by ``exclude:``, which does not affect ``include:``: rows of the latter are listed,
    to be removed. A row is for all targets of an entry, so it is listed only if none of them needs it.
    """
    dropped = {
        _place(contest.contest.op, str(contest.contest.target), {**contest.contest.config, **contestant.tuned})
        for contest in pruned
        for contestant in contest.dropped
    }
    lines: list[str] = []
    for entry in (entry for manifest in manifests for entry in manifest.entries if entry.program is None):
        entry_lines = _lines(entry, cache, dropped)
        lines += [f"# {entry.location}", *entry_lines] if entry_lines else []
    return lines


def _lines(entry: Entry, cache: Cache, dropped: set[bytes]) -> list[str]:
    """The changes of one entry; none if all of it is needed."""
    matrices = list(matrices_of(entry, cache))
    if not matrices:
        return []
    needed: dict[int, bool] = {}  # by the position of a row, over all ops and targets
    for matrix in matrices:
        for position, row in enumerate(matrix.rows()):
            variants = (_place(matrix.op, str(target), row.config) for target in entry.targets)
            needed[position] = needed.get(position, False) or any(variant not in dropped for variant in variants)
    if not any(needed.values()):
        return ["# nothing needs this entry: remove it"]
    matrix = matrices[0]
    rows = list(matrix.rows())
    plain = len(rows) - len(matrix.include)
    several = [name for name, values in matrix.axes.items() if len(values) > 1] or list(entry.tuned or matrix.axes)
    out = [
        config_text({name: row.config[name] for name in several}) for n, row in enumerate(rows[:plain]) if not needed[n]
    ]
    included = [
        config_text({name: row.config[name] for name in _given(node)})
        for n, (row, node) in enumerate(zip(matrix.include, entry.include, strict=True), plain)
        if not needed[n]
    ]
    lines = ["exclude:", *(f"  - {text}" for text in out)] if out else []
    return lines + (["# and of 'include', remove:", *(f"#  - {text}" for text in included)] if included else [])


def _given(row: Node) -> Iterable[str]:
    return row.value if isinstance(row.value, dict) else ()


def _place(op: str, target: str, config: Mapping[str, Any]) -> bytes:
    return canonical([op, target, config_json(config)])
