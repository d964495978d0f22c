"""The tuner: every candidate of a contest is timed on every problem, and the file is written after each problem.

There are two timings: all candidates with a few launches, then those near the best with many. The others keep their
first time, but never a shorter one than a candidate that was timed with care. A candidate that ends the launching
process or hangs is left out of its contest; one that refuses a problem, or writes wrong values, of that problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from precast.build.disk.scratch import write_output
from precast.build.measurements.fit import completed
from precast.build.measurements.tuning_file import LIMIT, Candidate, Gpu, Group, Sizes, TuningFile, sizes_of
from precast.kernels.authoring.declare import Problem
from precast.loader.contract.format.config import Key
from precast.loader.errors import FormatError
from precast.measure.on_gpu.launches import Lost, Trial
from precast.measure.tuning.contest import Contest, Contestant

QUICK, CAREFUL = 3, 15
"""Launches of a first and of a second timing."""

NEAR = 1.4
"""A candidate that takes more than this times the best is not timed again."""

HOPELESS, LONG = 3.0, 200.0
"""One whose first launch takes more than this times the best so far, and this many microseconds, is not launched again.
A first launch includes time of the host, so that shorter times cannot be compared."""


class Timer(Protocol):
    """Times one candidate on one problem, as ``precast.measure.on_gpu.launches.Launches`` does."""

    def trial(
        self, op: str, key: str, *, group: str, problem: Mapping[str, int], launches: int, check: bool, enough: float
    ) -> Trial: ...

    def clocks(self) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A candidate without a time, and the reason; without a problem it is left out of its whole contest."""

    contest: Contest
    contestant: Contestant
    reason: str
    problem: Problem | None = None

    def __str__(self) -> str:
        at = "" if self.problem is None else f" at {_sizes_text(self.problem)}"
        return f"{self.contest} {self.contestant}{at}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of one problem of a contest: how many candidates were timed, and the best of all.

    ``held`` counts those whose time the file had. ``lost`` has the keys of those after which the process was ended.
    """

    contest: Contest
    problem: Problem
    timed: int
    held: int
    best: Contestant | None = None
    microseconds: float = 0.0
    left_out: tuple[LeftOut, ...] = ()
    lost: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """For people, on one line."""
        if self.best is None:
            return "no candidate has a time"
        counts = f"{self.timed} timed" + (f", {self.held} known" if self.held else "")
        out = f", {len(self.left_out)} left out" if self.left_out else ""
        return f"{self.microseconds:.2f} us with {self.best}; {counts}{out}"


@dataclass(frozen=True, slots=True)
class _Timed:
    """The times of one timing by candidate, and the candidates without one."""

    times: Mapping[bytes, float]
    left_out: tuple[LeftOut, ...]
    lost: frozenset[str]


def read_file(path: Path) -> TuningFile:
    """The tuning file at a path; an empty one where there is none yet."""
    try:
        with open(path, "rb") as file:
            return TuningFile.decode(file.read(LIMIT + 1))
    except FileNotFoundError:
        return TuningFile()
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror}): name another file with -o") from None
    except FormatError as error:
        raise error.within(str(path)) from None


@dataclass(slots=True)
class Tuner:
    """Measures contests into a file.

    ``gpu`` is the GPU of this machine. ``keys`` are those of each op of the cache: configs of the file are completed
    with their defaults. ``check`` compares the outputs of candidates.
    """

    path: Path
    gpu: Gpu
    timer: Timer
    keys: Mapping[str, tuple[Key, ...]]
    check: bool = True
    show: Callable[[Round], None] = lambda _: None
    file: TuningFile = field(default_factory=TuningFile)
    measured: int = 0
    held: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    _clocks: dict[str, int] | None = None

    def run(self, contests: Iterable[Contest]) -> TuningFile:
        """Measure what the file lacks, and return the whole file. It is written after each problem."""
        self.file = completed(read_file(self.path), self.keys)
        for contest in contests:
            lost: frozenset[str] = frozenset()
            for problem in contest.problems:
                done = self._round(contest, problem, lost)
                self.measured += done.timed
                self.held += done.held
                self.left_out += done.left_out
                lost |= done.lost
                self.show(done)
        return self.file

    def _round(self, contest: Contest, problem: Problem, lost: frozenset[str]) -> Round:
        sizes = sizes_of(problem)
        earlier = self._known(contest, sizes)
        missing = [c for c in contest.contestants if c.identity not in earlier and c.key not in lost]
        quick = self._timed(contest, problem, missing, QUICK, min(earlier.values(), default=0.0))
        best = min([*quick.times.values(), *earlier.values()], default=0.0)
        near = [c for c in missing if c.identity in quick.times and quick.times[c.identity] <= NEAR * best]
        careful = self._timed(contest, problem, near, CAREFUL)
        if careful.times and self._clocks is None:
            self._read_clocks()
        left_out = quick.left_out + careful.left_out
        dropped = {entry.contestant.identity for entry in left_out}
        times = settled({name: time for name, time in quick.times.items() if name not in dropped}, careful.times)
        if times:
            self._keep(contest, sizes, times)
        all_times = {**earlier, **times}
        by_name = {candidate.identity: candidate for candidate in contest.contestants}
        winner = min((name for name in all_times if name in by_name), key=lambda n: all_times[n], default=None)
        return Round(
            contest=contest,
            problem=problem,
            timed=len(times),
            held=len(earlier),
            best=None if winner is None else by_name[winner],
            microseconds=0.0 if winner is None else all_times[winner],
            left_out=left_out,
            lost=quick.lost | careful.lost,
        )

    def _timed(
        self, contest: Contest, problem: Problem, members: Iterable[Contestant], launches: int, best: float = 0.0
    ) -> _Timed:
        """Time each candidate.

        ``best`` is the least time that is known before; the first launches of the others may make it less.
        """
        quick = launches == QUICK
        times: dict[bytes, float] = {}
        left_out: list[LeftOut] = []
        lost: set[str] = set()
        for contestant in members:
            best = min(filter(None, (best, *times.values())), default=0.0)
            try:
                trial = self.timer.trial(
                    contest.op,
                    contestant.key,
                    group=contest.name,
                    problem=problem,
                    launches=launches,
                    check=self.check and quick,
                    enough=max(HOPELESS * best, LONG) if quick and best else 0.0,
                )
            except Lost as error:
                lost.add(contestant.key)
                left_out.append(LeftOut(contest=contest, contestant=contestant, reason=str(error)))
                continue
            if trial.refused or not trial.microseconds > 0:
                reason = trial.refused or "it has no time"
                left_out.append(LeftOut(contest=contest, contestant=contestant, problem=problem, reason=reason))
                if not trial.healthy:
                    lost.add(contestant.key)
                continue
            times[contestant.identity] = round(trial.microseconds, 3)
        return _Timed(times, tuple(left_out), frozenset(lost))

    def _read_clocks(self) -> None:
        """Read the clocks of the GPU under load, once."""
        self._clocks = dict(self.timer.clocks())
        sm, memory = (self._clocks.get(name, 0) for name in ("sm_mhz", "memory_mhz"))
        self.gpu = replace(self.gpu, sm_mhz=sm, memory_mhz=memory)

    def _known(self, contest: Contest, sizes: Sizes) -> dict[bytes, float]:
        """The times at a problem of the candidates whose device code is what was measured."""
        group = self._group(contest)
        codes = {candidate.identity: candidate.code for candidate in contest.contestants}
        return {
            candidate.identity: candidate.times[sizes]
            for candidate in group.candidates
            if sizes in candidate.times and codes.get(candidate.identity) == candidate.code
        }

    def _group(self, contest: Contest) -> Group:
        empty = Group(op=contest.op, config=contest.config, target=contest.target, gpu=self.gpu.name, candidates=())
        return next((group for group in self.file.groups if group.identity == empty.identity), empty)

    def _keep(self, contest: Contest, sizes: Sizes, times: Mapping[bytes, float]) -> None:
        """Put times into the file, in one step. The first time of other code drops all times of the code before."""
        group = self._group(contest)
        candidates = {contestant.identity: contestant for contestant in group.candidates}
        for contestant in (contestant for contestant in contest.contestants if contestant.identity in times):
            before = candidates.get(contestant.identity)
            kept = before.times if before is not None and before.code == contestant.code else {}
            candidates[contestant.identity] = Candidate(
                tuned=contestant.tuned,
                code=contestant.code,
                date=self.gpu.date,
                times={**kept, sizes: times[contestant.identity]},
                tiling=contestant.tiling,
            )
        updated = replace(group, candidates=tuple(candidates[name] for name in sorted(candidates)))
        groups = {g.identity: g for g in (*self.file.groups, updated)}
        gpus = {gpu.name: gpu for gpu in (*self.file.gpus, self.gpu)}
        self.file = TuningFile(
            tuple(gpus[name] for name in sorted(gpus)), tuple(groups[name] for name in sorted(groups))
        )
        write_output(self.path, self.file.encode())


def settled(first: Mapping[bytes, float], second: Mapping[bytes, float]) -> dict[bytes, float]:
    """The times to keep: the second if there is one, otherwise the first, but no less than the worst of the second.

    >>> settled({b"a": 1.0, b"b": 1.1, b"c": 1.2}, {b"a": 1.3, b"b": 1.25})
    {b'a': 1.3, b'b': 1.25, b'c': 1.3}
    """
    least = max(second.values(), default=0.0)
    return {name: second.get(name, max(time, least)) for name, time in first.items()}


def _sizes_text(problem: Problem) -> str:
    return " ".join(f"{name}={size}" for name, size in problem.items())
