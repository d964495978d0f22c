"""The tally of one test, and the verdict on it. All of it is pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["passed", "failed", "not built", "not applicable"]


@dataclass(slots=True)
class Tally:
    """What a test has done since it began: the keys that no cache had, its launches, its compilations."""

    missing: list[str] = field(default_factory=list)
    launches: int = 0
    compiles: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is counted of a test."""

    outcome: Outcome
    reason: str = ""


def judge(outcome: str, reason: str, tally: Tally) -> Verdict:
    """What a test's own outcome means here.

    >>> judge("passed", "", Tally(launches=2))
    Verdict(outcome='passed', reason='')
    >>> judge("passed", "", Tally()).outcome
    'not applicable'
    """
    if tally.compiles:
        return Verdict("failed", f"asked the compiler itself, {tally.compiles} times")
    if outcome == "skipped":
        return Verdict("not applicable", reason)
    if tally.missing:
        return Verdict("not built", tally.missing[0])
    if outcome != "passed":
        return Verdict("failed", reason)
    return Verdict("passed") if tally.launches else Verdict("not applicable", "launches no kernel of the library's")
