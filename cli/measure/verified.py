"""What ``precast verify`` found out of each variant, and how that is told: reports, and the smallest failing case."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

from precast.build.on_gpu.launches import Launches
from precast.cli.measure.evidence import Known
from precast.cli.shared.junit import ReportedCase
from precast.cli.shared.progress import Progress
from precast.kernels.authoring.declare import Problem
from precast.kernels.authoring.launching.cases import Case, LeftOut, misfit
from precast.kernels.authoring.verification.check import Check, outcome, smallest

_KEY = 12  # digits of a key that name an artifact
_NO_MEMORY = "OutOfMemoryError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How variants are verified: the same for all of them."""

    seed: int = 0
    problem: Problem | None = None
    most: int | None = None
    huge: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """One variant: its checks, or why it was left out. ``known`` is the evidence that there was before, if any."""

    op: str
    key: str
    name: str
    checks: Sequence[Check] = ()
    seconds: float = 0.0
    left_out: str = ""
    known: Mapping[str, Any] | None = None

    @property
    def outcome(self) -> Mapping[str, Any]:
        """The summary of its checks; of those of the time before, what was left out is told no more."""
        return {"failed": [], "left_out": []} if self.known else outcome(self.checks)

    @property
    def said(self) -> str:
        """What the progress says of it."""
        if self.known is not None:
            return f"verified before, {str(self.known.get('date'))[:20]}"
        if self.left_out:
            return f"left out: {self.left_out}"
        wrong = self.outcome["failed"]
        return f"wrong: {wrong[0]}" if wrong else f"{self.outcome['worst']:.2f} of the tolerance"

    @property
    def case(self) -> ReportedCase:
        """What a report says of it."""
        failures = () if self.left_out else self.outcome["failed"]
        return ReportedCase(
            group=self.op,
            name=f"{self.name} {self.key[:_KEY]}",
            seconds=self.seconds,
            failures=failures,
            skipped=self.left_out,
        )


def verify_each(
    found: Sequence[Case | LeftOut],
    options: Options,
    launches: Sequence[Launches],
    progress: Progress,
    known: Known | None = None,
) -> list[Verified]:
    """Verify variants, as many at once as there are launching processes. What is known already is not launched again.

    Several at once share the memory of the GPU. What needs much of it then waits, and is launched alone: problems of
    more than 2**31 elements, and variants that found no memory beside others.
    """
    several = len(launches) > 1
    beside = replace(options, huge=False) if several else options
    idle: SimpleQueue[Launches] = SimpleQueue()
    for each in launches:
        idle.put(each)

    def verified(case: Case | LeftOut) -> Verified:
        process = idle.get()
        try:
            return _verified(case, beside, process, known)
        finally:
            idle.put(process)

    threads = ThreadPoolExecutor(len(launches))
    done = []
    try:
        for case, running in zip(found, [threads.submit(verified, case) for case in found], strict=True):
            progress.begin(str(case))
            one = running.result()
            progress.step(one.name, one.said, keep=bool(one.outcome["failed"]))
            done.append(one)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # who ends the processes ends what still runs
    if several:
        progress.stage("launching alone what needs much of the GPU's memory")
        for each in launches:  # one that rests keeps what it took, of the GPU's memory and of the host's
            each.end()
        done = [_completed(case, one, options, launches[0]) for case, one in zip(found, done, strict=True)]
    return done


def _verified(case: Case | LeftOut, options: Options, launches: Launches, known: Known | None) -> Verified:
    """One variant, verified in a process of its own."""
    one = Verified(op=case.op, key=case.artifact.key, name=str(case))
    entry = known.of(case.op, case.artifact) if known and isinstance(case, Case) else None
    if entry is not None:
        return replace(one, known=entry)
    reason = _obstacle(case, options)
    if reason or isinstance(case, LeftOut):
        return replace(one, left_out=reason)
    begun = time.perf_counter()
    checks = launches.checks(
        case.op, one.key, seed=options.seed, problem=options.problem, most=options.most, huge=options.huge
    )
    return replace(one, checks=checks, seconds=time.perf_counter() - begun)


def _completed(case: Case | LeftOut, one: Verified, options: Options, launches: Launches) -> Verified:
    """A variant that was verified beside others, with what had to wait."""
    if isinstance(case, LeftOut) or not one.checks:
        return one
    if any(_NO_MEMORY in check.fault for check in one.checks):
        return _verified(case, options, launches, None)
    large = case.declaration.large
    if large is None or options.problem is not None or options.most is not None or one.outcome["failed"]:
        return one
    problem = dict(large(case.artifact.config))
    checks = launches.checks(case.op, one.key, seed=options.seed, problem=problem, most=None, huge=None)
    return replace(one, checks=[*(c for c in one.checks if dict(c.problem) != problem), *checks])


def _obstacle(case: Case | LeftOut, options: Options) -> str:
    """Why a variant is not verified; empty where it is."""
    if isinstance(case, LeftOut):
        return case.reason
    if not case.declaration.verifiable:
        return "its @kernel gives no problems, inputs, outputs and reference"
    assert case.declaration.problems
    return misfit([options.problem] if options.problem else [], case.declaration.problems(case.artifact.config))


def worst_of(found: Iterable[Verified]) -> tuple[Verified, Check] | None:
    """The variant with the smallest failing problem, and that failure; None where nothing failed."""
    failures = [(one, check) for one in found if (check := smallest(one.checks)) is not None]
    return min(failures, key=lambda failure: failure[1].elements, default=None)


def repeating(cache: str, one: Verified, check: Check, seed: int) -> str:
    """The command line that makes one failing check again, and little else.

    >>> failed = Check(problem={"n": 5}, output="out", error=2.0, fault="wrong")
    >>> repeating("my cache", Verified(op="scale", key="3f2a91c07d55" + "0" * 52, name="scale"), failed, 7)
    "precast verify 'my cache' --op scale --key 3f2a91c07d55 --problem n=5 --seed 7"
    """
    sizes = ",".join(f"{name}={size}" for name, size in check.problem.items())
    words = ["precast", "verify", cache, "--op", one.op, "--key", one.key[:_KEY]]
    return shlex.join([*words, *(["--problem", sizes] if sizes else []), "--seed", str(seed)])
