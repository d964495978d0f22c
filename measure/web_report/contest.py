"""Contests between variants that a caller does not tell apart, from the measurements in an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from precast.loader.contract.format.config import config_text
from precast.loader.contract.format.op_reader import OpReader

_PLACES = 4  # digits of a time that a page holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """The times of one op's variants with the same meaning config, on one GPU, for each problem.

    ``problems`` has sizes, then the microseconds by the position of a variant in the page, the fastest first.
    """

    op: str
    config: str
    gpu: str
    problems: tuple[tuple[Mapping[str, int], tuple[tuple[int, float], ...]], ...]

    def to_json(self) -> dict[str, Any]:
        """As the page's script reads it."""
        problems = [[dict(sizes), [list(time) for time in times]] for sizes, times in self.problems]
        return {"op": self.op, "config": self.config, "gpu": self.gpu, "problems": problems}


def contests(op: str, index: OpReader, positions: Mapping[str, int]) -> Iterator[Contest]:
    """The contests of an op; ``positions`` are those of the variants in the page, by key."""
    tuned = {key.name for key in index.keys if key.tuned}
    meaning = {
        artifact.key: config_text({name: value for name, value in artifact.config.items() if name not in tuned})
        for artifact in index.artifacts
    }
    problems_of: dict[tuple[str, str], list[tuple[Mapping[str, int], tuple[tuple[int, float], ...]]]] = {}
    for row in index.tuning:
        by_meaning: dict[str, list[tuple[int, float]]] = {}
        for key, time in row.times.items():
            if key in meaning:
                by_meaning.setdefault(meaning[key], []).append((positions[key], float(f"{time:.{_PLACES}g}")))
        for config, times in by_meaning.items():
            ordered = tuple(sorted(times, key=lambda pair: pair[1]))
            problems_of.setdefault((config, row.gpu), []).append((row.problem, ordered))
    for (config, gpu), problems in sorted(problems_of.items()):
        yield Contest(op=op, config=config, gpu=gpu, problems=tuple(sorted(problems, key=_sizes)))


def _sizes(problem: tuple[Mapping[str, int], object]) -> list[tuple[str, int]]:
    return sorted(problem[0].items())


def wins(contests: Iterable[Contest]) -> tuple[dict[int, int], dict[int, int]]:
    """The number of problems at which each variant was the fastest, and at which it was timed."""
    won: dict[int, int] = {}
    tried: dict[int, int] = {}
    for contest in contests:
        for _, times in contest.problems:
            won[times[0][0]] = won.get(times[0][0], 0) + 1
            for position, _ in times:
                tried[position] = tried.get(position, 0) + 1
    return won, tried
