"""Checks: the result of one run of a problem for one argument, and a summary of many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.declare import Problem
from precast.loader.contract.format import fields

_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One argument after one run. ``error`` is the largest difference, as a share of what the tolerance allows.

    ``fault`` is what is wrong, or empty. ``left_out`` is the reason why a run was skipped; such a check has no
    argument. ``elements`` is how many elements all tensors of the problem have: its size. A run that ``broke`` raised
    an error, and ended the runs of its problem.
    """

    problem: Problem
    output: str
    error: float
    fault: str = ""
    scenario: str = ""
    elements: int = 0
    left_out: str = ""
    broke: bool = False

    @property
    def passed(self) -> bool:
        """Whether the argument holds what it must, and nothing else was touched."""
        return not self.fault

    def to_json(self) -> dict[str, Any]:
        """The check as JSON, which has no infinity."""
        names = ("output", "fault", "scenario", "elements", "left_out", "broke")
        facts = {name: getattr(self, name) for name in names}
        error = self.error if math.isfinite(self.error) else None
        return {**facts, "problem": dict(self.problem), "error": error}

    @classmethod
    def parse(cls, value: object) -> Check:
        """Read what ``to_json`` gave; raises FormatError.

        >>> check = Check(problem={"n": 4}, output="x", error=math.inf, fault="wrong")
        >>> Check.parse(check.to_json()) == check
        True
        """
        data = fields.as_object(value)
        sizes = fields.parsed(data, "problem", fields.as_object)
        return cls(
            problem={name: fields.count(sizes, name, most=_MOST) for name in sizes},
            output=fields.get(data, "output", str),
            error=math.inf if data.get("error") is None else fields.get(data, "error", float),
            fault=fields.get(data, "fault", str),
            scenario=fields.get(data, "scenario", str),
            elements=fields.count(data, "elements", most=_MOST),
            left_out=fields.get(data, "left_out", str),
            broke=fields.get(data, "broke", bool, False),
        )

    def __str__(self) -> str:
        where = f"{self.output or 'a run'} at {sizes(self.problem)}{', ' if self.scenario else ''}{self.scenario}"
        result = f"left out: {self.left_out}" if self.left_out else f"{self.error:.2f} of the tolerance"
        return f"{where}: {self.fault or result}"


def sizes(problem: Problem) -> str:
    """A problem in words.

    >>> sizes({"m": 4, "n": 8})
    'm=4 n=8'
    """
    return " ".join(f"{name}={value}" for name, value in problem.items()) or "its one problem"


def smallest(checks: Iterable[Check]) -> Check | None:
    """The failed check of the smallest problem, the first of these; None where all passed.

    >>> bad = [Check(problem={"n": n}, output="x", error=2.0, fault="wrong", elements=n) for n in (9, 5, 7)]
    >>> smallest(bad).problem
    {'n': 5}
    """
    return min((check for check in checks if not check.passed), key=lambda check: check.elements, default=None)


def outcome(checks: Iterable[Check]) -> Mapping[str, Any]:
    """A summary of checks, as it is stored in a cache as evidence.

    >>> outcome([Check(problem={"n": 4}, output="x", error=0.5, scenario="first run")])
    {'problems': 1, 'scenarios': ['first run'], 'left_out': [], 'failed': [], 'worst': 0.5}
    """
    checks = list(checks)
    completed = [check for check in checks if not check.left_out]
    worst = max((check.error for check in completed), default=0.0)
    return {
        "problems": len({tuple(check.problem.items()) for check in completed}),
        "scenarios": list(dict.fromkeys(check.scenario for check in completed)),
        "left_out": list(dict.fromkeys(f"{check.scenario}: {check.left_out}" for check in checks if check.left_out)),
        "failed": [str(check) for check in completed if not check.passed],
        "worst": worst if math.isfinite(worst) else None,  # JSON has no infinity
    }
