"""What tests of the estimate share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from precast.loader.contract.format.estimate import Choice, Estimate
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning import Measured


def fastest(
    table: Iterable[Measured],
    problem: Mapping[str, int],
    keys: Iterable[str],
    *,
    gpu: str | None,
    capability: Capability | None,
) -> Choice | None:
    """The choice for one problem."""
    return Estimate(table, problem, keys, gpu=gpu, capability=capability).fastest(problem)


def distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """The distance of two problems with the same axes, in the logarithms of their sizes."""
    points = ([math.log2(problem[axis] + 1) for axis in sorted(problem)] for problem in (one, other))
    return math.dist(*points)
