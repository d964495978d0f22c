"""Rounds: every variant is timed several times, minutes apart, so that the spread includes slow changes.

Clocks and temperatures drift: two copies of one kernel that are timed once, one after the other, differ by more than
their launches differ among themselves. So all variants are timed in each round, every second one in the reverse order.
The time of a variant is the median of its rounds; its spread is half of the range of these, or half the interquartile
range of the launches of a round, whichever is more.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.machine.driver import Device
from precast.measure.bench.report import Report, Row
from precast.measure.on_gpu.launches import Launches, Lost
from precast.measure.timing.bench import USUAL, Timing
from precast.measure.timing.ceilings import Ceilings

LAUNCHES = 40  # of a round: the clocks of an idle GPU rise meanwhile, and few of them are slow
ROUNDS = 3
Variant = tuple[str, Artifact]
Place = tuple[tuple[str, int], ...]


class Watcher(Protocol):
    """Shows the progress."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def skip(self) -> None:
        """A variant is not launched again."""

    def begin(self, name: str) -> None:
        """A variant is launched."""

    def step(self, name: str, text: str, *, keep: bool = False) -> None:
        """A variant was launched; ``keep`` marks an important message."""


def rounds(
    launches: Launches,
    variants: Sequence[Variant],
    device: Device,
    watcher: Watcher,
    *,
    problems: Sequence[Mapping[str, int]] = (),
    count: int = ROUNDS,
    extras: Sequence[str] = USUAL,
) -> Report:
    """Time some variants on the given problems, or on those that each kernel declares."""
    taken: dict[str, dict[Place, list[Timing]]] = {artifact.key: {} for _, artifact in variants}
    left_out: list[tuple[str, str]] = []
    dtypes = sorted({str(artifact.config["dtype"]) for _, artifact in variants if "dtype" in artifact.config})
    ceilings, notes = _ceilings(launches, dtypes, watcher) if variants else (None, [])
    for turn in range(count):
        round_extras = extras if turn == 0 else [extra for extra in extras if extra == "peer"]
        for op, artifact in variants if turn % 2 == 0 else reversed(variants):
            own, name = taken[artifact.key], name_of(op, artifact)
            requested = [dict(sizes) for sizes in own] if turn else [dict(problem) for problem in problems] or None
            if requested == []:  # nothing of it could be measured
                watcher.skip()
                continue
            watcher.begin(name)
            launched = launches.timed(op, artifact.key, requested, launches=LAUNCHES, extras=round_extras)
            for result in launched:
                if result.timing is not None:
                    own.setdefault(tuple(sorted(result.problem.items())), []).append(result.timing)
            refused = [str(result) for result in launched if result.refused]
            left_out += [(name, text) for text in refused]
            last = [str(result) for result in launched if not result.refused][-1:]
            watcher.step(name, "; ".join([*last, *refused]), keep=bool(refused))
    if ceilings is not None:
        again, more = _ceilings(launches, dtypes, watcher)
        ceilings = ceilings.higher(again) if again is not None else ceilings
        notes += more
    rows = [
        Row(op=op, key=a.key, target=str(a.target), config=a.config, timing=combined(timings))
        for op, a in variants
        for timings in taken[a.key].values()
    ]
    return Report(
        gpu=device.name,
        capability=device.capability,
        rounds=count,
        ceilings=ceilings,
        rows=tuple(rows),
        left_out=tuple(left_out),
        notes=tuple(dict.fromkeys(notes)),
    )


def combined(timings: Sequence[Timing]) -> Timing:
    """The timings of several rounds as one; values that only the first round measured are kept.

    >>> first = Timing(problem={"n": 8}, microseconds=10.0, spread=0.5, host=3.5)
    >>> more = [Timing(problem={"n": 8}, microseconds=t, spread=0.5) for t in (12.0, 10.5)]
    >>> found = combined([first, *more])
    >>> found.microseconds, found.spread, found.host
    (10.5, 1.0, 3.5)
    """
    times = [timing.microseconds for timing in timings]
    peers = {name: [t.peers[name] for t in timings if name in t.peers] for t in timings for name in t.peers}
    return replace(
        timings[0],
        microseconds=statistics.median(times),
        spread=max((max(times) - min(times)) / 2, statistics.median(timing.spread for timing in timings)),
        peers={name: statistics.median(values) for name, values in peers.items()},
        notes=tuple(dict.fromkeys(note for timing in timings for note in timing.notes)),
    )


def name_of(op: str, artifact: Artifact) -> str:
    """The label of a variant."""
    return f"{op}({config_text(artifact.config)}) for {artifact.target}"


def _ceilings(launches: Launches, dtypes: Iterable[str], watcher: Watcher) -> tuple[Ceilings | None, list[str]]:
    watcher.stage("measuring the GPU's peak rates")
    try:
        ceilings = launches.ceilings(list(dtypes))
    except Lost as error:
        return None, [f"the GPU's peak rates were not measured: {error}"]
    return ceilings, list(ceilings.notes)
