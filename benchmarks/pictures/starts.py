"""How long a service takes until its first answer, and what takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from pictures.bars import Bar, Part, draw
from pictures.svg import FULL, NARROW, Picture, width_of

Run = Mapping[str, Any]
PARTS = {
    "process": ("the interpreter, torch and Starlette imported", "pale"),
    "imports": ("quack and FlashAttention-4 imported", "peer"),
    "preload": ("kernels loaded", "good"),
    "model": ("weights; precast's own kernels where they are compiled", "behind"),
    "warm-up": ("first calls; the libraries' kernels where they are compiled", "wait"),
    "first answer": ("first answer", "ours"),
}
OURS = "attached"


def parts_of(run: Run) -> dict[str, float]:
    """Where the seconds of one start went.

    >>> phases = {"imports": 3.0, "preload": 0.5, "model": 0.5, "warm-up": 0.5}
    >>> parts_of({"listens": 5.0, "answered": 5.5, "phases": phases})
    {'process': 0.5, 'imports': 3.0, 'preload': 0.5, 'model': 0.5, 'warm-up': 0.5, 'first answer': 0.5}
    """
    phases: Mapping[str, float] = run["phases"]
    before, after = run["listens"] - sum(phases.values()), run["answered"] - run["listens"]
    seconds = {"process": before, **phases, "first answer": after}
    return {name: seconds[name] for name in PARTS}


def by_case(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each case, in the order in which the cases first appear."""
    cases: dict[str, list[Run]] = {}
    for run in runs:
        cases.setdefault(run["case"], []).append(run)
    return cases


def means(runs: Sequence[Run]) -> dict[str, float]:
    """The mean seconds of each part."""
    parts = [parts_of(run) for run in runs]
    return {name: fmean(part[name] for part in parts) for name in PARTS}


def bars_of(results: Mapping[str, Any]) -> list[Bar]:
    """A bar for each case: the mean of each part of its start, and the median of all."""
    bars = []
    for case, runs in by_case(results["runs"]).items():
        parts = [Part(s, PARTS[name][1], f"{PARTS[name][0]}: {s:.2f} s") for name, s in means(runs).items()]
        bars.append(Bar(case, parts, f"{median(run['answered'] for run in runs):.1f} s", bold=case.startswith(OURS)))
    return bars


def picture(results: Mapping[str, Any], width: int = FULL) -> str:
    """The bars, and what the colours mean."""
    columns = 2 if width > NARROW else 1
    rows = -(-len(PARTS) // columns)
    picture = Picture(width, 0, "Seconds of each part of a start, until the first answer")
    bottom = draw(picture, bars_of(results), 0, 12, width - 8)
    right = 190 + width_of(PARTS["process"][0], "small") + 24
    for place, (name, fill) in enumerate(PARTS.values()):
        column, row = divmod(place, rows)
        picture.legend((8, right - 150)[column], bottom + 20 + 20 * row, [(fill, name)])
    picture.height = bottom + 20 * rows + 24
    return picture.to_svg()
