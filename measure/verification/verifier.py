"""Verifies the variants of a cache, several at once, in processes that launch or that emulate."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Protocol

from precast.kernels.authoring.declare import Problem
from precast.measure.checks.check import Check, outcome, smallest
from precast.measure.launching.cases import LeftOut, Selected, misfit
from precast.measure.verification.evidence import EarlierEvidence
from precast.measure.verification.kept_ptx import NoPtx

_NO_MEMORY = "OutOfMemoryError"


class NotEmulated(Exception):
    """PTX that the emulator refuses. ``opcode`` is the instruction."""

    def __init__(self, message: str, opcode: str) -> None:
        super().__init__(message)
        self.opcode = opcode


class Progress(Protocol):
    """What shows the progress of a verification."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def begin(self, item: str) -> None:
        """A variant is launched."""

    def step(self, item: str, note: str = "", *, keep: bool = False) -> None:
        """A variant is done; ``keep`` if it failed."""


class Checker(Protocol):
    """What checks an artifact in a process of its own: ``Launches``, or ``Emulations``."""

    def checks(
        self,
        op: str,
        key: str,
        *,
        seed: int,
        problem: Mapping[str, int] | None,
        most: int | None,
        huge: bool | None = None,
    ) -> tuple[Check, ...]:
        """The checks of an artifact; an emulation may raise NotEmulated."""

    def end(self) -> None:
        """End the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How variants are verified: the same for all of them."""

    seed: int = 0
    problem: Problem | None = None
    most: int | None = None
    huge: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """One variant: its checks, its evidence from an earlier run, or why it was left out.

    ``refused`` is what of its PTX is not emulated, and ``opcode`` the instruction.
    """

    op: str
    key: str
    name: str
    checks: Sequence[Check] = ()
    seconds: float = 0.0
    left_out: str = ""
    refused: str = ""
    opcode: str = ""
    earlier: Mapping[str, Any] | None = None

    @property
    def outcome(self) -> Mapping[str, Any]:
        """The summary of its checks; nothing failed in an earlier run that counts."""
        return {"failed": [], "left_out": []} if self.earlier else outcome(self.checks)

    @property
    def note(self) -> str:
        """The result in a line of progress."""
        if self.earlier is not None:
            return f"verified before, {str(self.earlier.get('date'))[:20]}"
        if self.left_out or self.refused:
            return f"left out: {self.left_out}" if self.left_out else f"refused: {self.refused}"
        wrong = self.outcome["failed"]
        return f"wrong: {wrong[0]}" if wrong else f"{self.outcome['worst']:.2f} of the tolerance"


def verify_each(
    cases: Sequence[Selected | LeftOut],
    options: Options,
    launches: Sequence[Checker],
    progress: Progress,
    earlier: EarlierEvidence | None = None,
    *,
    share_gpu: bool = True,
) -> list[Verified]:
    """Verify variants, as many at once as there are processes. One with earlier evidence is not launched.

    Variants that run at once share the memory of the GPU. Those that need much of it wait, and are launched alone
    afterwards: problems of more than 2**31 elements, and variants that ran out of memory beside others.
    """
    several = share_gpu and len(launches) > 1
    beside = replace(options, huge=False) if several else options
    idle: SimpleQueue[Checker] = SimpleQueue()
    for process in launches:
        idle.put(process)

    def verified(case: Selected | LeftOut) -> Verified:
        process = idle.get()
        try:
            return _verified(case, beside, process, earlier)
        finally:
            idle.put(process)

    threads = ThreadPoolExecutor(len(launches))
    results = []
    try:
        for case, running in zip(cases, [threads.submit(verified, case) for case in cases], strict=True):
            progress.begin(str(case))
            result = running.result()
            progress.step(result.name, result.note, keep=bool(result.outcome["failed"]))
            results.append(result)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # closing the processes ends what still runs
    if several:
        progress.stage("launching the problems that need much GPU memory, one at a time")
        for process in launches:  # an idle one keeps its memory, on the GPU and on the host
            process.end()
        results = [_completed(case, result, options, launches[0]) for case, result in zip(cases, results, strict=True)]
    return results


def _verified(
    case: Selected | LeftOut, options: Options, launches: Checker, earlier: EarlierEvidence | None
) -> Verified:
    result = Verified(op=case.op, key=case.artifact.key, name=str(case))
    evidence = earlier.of(case.op, case.artifact) if earlier and isinstance(case, Selected) else None
    if evidence is not None:
        return replace(result, earlier=evidence)
    reason = _obstacle(case, options)
    if reason or isinstance(case, LeftOut):
        return replace(result, left_out=reason)
    start = time.perf_counter()
    how = {"seed": options.seed, "problem": options.problem, "most": options.most, "huge": options.huge}
    try:
        result = replace(result, checks=launches.checks(case.op, result.key, **how))  # type: ignore[arg-type]
    except NotEmulated as error:
        result = replace(result, refused=str(error), opcode=error.opcode)
    except NoPtx as error:
        result = replace(result, left_out=str(error))
    return replace(result, seconds=time.perf_counter() - start)


def _completed(case: Selected | LeftOut, result: Verified, options: Options, launches: Checker) -> Verified:
    """The result of a variant that was verified beside others, with what had to wait."""
    if isinstance(case, LeftOut) or not result.checks:
        return result
    if any(_NO_MEMORY in check.fault for check in result.checks):
        return _verified(case, options, launches, None)
    large = case.declaration.large
    if large is None or options.problem is not None or options.most is not None or result.outcome["failed"]:
        return result
    problem = dict(large(case.artifact.config))
    checks = launches.checks(case.op, result.key, seed=options.seed, problem=problem, most=None, huge=None)
    return replace(result, checks=[*(c for c in result.checks if dict(c.problem) != problem), *checks])


def _obstacle(case: Selected | LeftOut, options: Options) -> str:
    """Why a variant cannot be verified; empty if it can."""
    if isinstance(case, LeftOut):
        return case.reason
    if not case.declaration.verifiable:
        return "its @kernel gives no problems, inputs, outputs and reference"
    assert case.declaration.problems
    return misfit([options.problem] if options.problem else [], case.declaration.problems(case.artifact.config))


def worst_of(results: Iterable[Verified]) -> tuple[Verified, Check] | None:
    """The variant with the smallest failing problem, and that failure; None if nothing failed."""
    failures = [(result, check) for result in results if (check := smallest(result.checks)) is not None]
    return min(failures, key=lambda failure: failure[1].elements, default=None)
