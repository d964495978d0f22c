"""What ``precast verify`` found out of each variant, and how that is told: reports, and the smallest failing case."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.build.launches import Launches
from precast.cli.measure.evidence import Known
from precast.cli.shared.junit import ReportedCase
from precast.cli.shared.progress import Progress
from precast.kernels.authoring.declare import Problem
from precast.kernels.authoring.launching.cases import Case, LeftOut, misfit
from precast.kernels.authoring.verification.check import Check, outcome, smallest

_KEY = 12  # digits of a key that name an artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How variants are verified: the same for all of them."""

    seed: int = 0
    problem: Problem | None = None
    most: int | None = None


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
    found: Iterable[Case | LeftOut],
    options: Options,
    launches: Launches,
    progress: Progress,
    known: Known | None = None,
) -> Iterator[Verified]:
    """Verify one variant after the other, in a process of their own. What is known already is not launched again."""
    for case in found:
        entry = known.of(case.op, case.artifact) if known and isinstance(case, Case) else None
        if entry is not None:
            progress.step(str(case), f"verified before, {str(entry.get('date'))[:20]}")
            yield Verified(op=case.op, key=case.artifact.key, name=str(case), known=entry)
            continue
        reason = _obstacle(case, options)
        if reason or isinstance(case, LeftOut):
            progress.step(str(case), f"left out: {reason}")
            yield Verified(op=case.op, key=case.artifact.key, name=str(case), left_out=reason)
            continue
        progress.begin(str(case))
        begun = time.perf_counter()
        key = case.artifact.key
        checks = launches.checks(case.op, key, seed=options.seed, problem=options.problem, most=options.most)
        one = Verified(
            op=case.op,
            key=key,
            name=str(case),
            checks=checks,
            seconds=time.perf_counter() - begun,
        )
        wrong = one.outcome["failed"]
        said = f"wrong: {wrong[0]}" if wrong else f"{one.outcome['worst']:.2f} of the tolerance"
        progress.step(str(case), said, keep=bool(wrong))
        yield one


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
