"""Rounds over the variants of a cache: their order, what is asked in each, and what becomes of several times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.target import Capability
from precast.loader.contract.values import replace
from precast.loader.machine.driver import Device
from precast.loader.resolve.cache import Cache
from precast.measure.bench.rounds import combined, rounds
from precast.measure.on_gpu.launches import Launched, Launches, Lost
from precast.measure.timing.bench import USUAL, Timing
from precast.measure.timing.ceilings import Ceilings
from tests.helpers.caches import Native, demo

DEVICE = Device(ordinal=0, name="NVIDIA H200", capability=Capability(9, 0))
SIZES = ({"n": 8}, {"n": 16})


class Clock(Launches):
    """In place of the process that launches: the times that a test gives, by the key of the artifact."""

    def __init__(self, times: dict[str, list[float]], ceilings: Sequence[Ceilings | Lost] = ()) -> None:
        self.times, self.found = {key: list(given) for key, given in times.items()}, list(ceilings)
        self.asked: list[tuple[str, Any, tuple[str, ...]]] = []

    def timed(
        self, op: str, key: str, problems: Any, *, launches: int = 20, extras: Sequence[str] = ()
    ) -> tuple[Launched, ...]:
        self.asked.append((key, problems, tuple(extras)))
        if not self.times[key]:
            return (Launched(problem={}, refused="the launching process ended: SIGSEGV"),)
        us = self.times[key].pop(0)
        host = 3.5 if "host" in extras else 0.0
        return tuple(
            Launched(
                problem=size,
                timing=Timing(problem=size, microseconds=us * size["n"], spread=0.1, host=host, peers={"torch": us}),
            )
            for size in problems or SIZES
        )

    def ceilings(self, dtypes: Sequence[str]) -> Ceilings:
        found = self.found.pop(0) if self.found else Ceilings(bandwidth=4000.0)
        if isinstance(found, Lost):
            raise found
        return found


class Watching:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.kept: list[str] = []
        self.done = 0

    def stage(self, text: str) -> None:
        self.lines.append(text)

    def skip(self) -> None:
        self.done += 1

    def begin(self, name: str) -> None:
        pass

    def step(self, name: str, text: str, *, keep: bool = False) -> None:
        self.done += 1
        (self.kept if keep else self.lines).append(f"{name}: {text}")


@pytest.fixture
def variants(tmp_path: Path) -> Iterator[list[tuple[str, Artifact]]]:
    cache = Cache(demo(Native(tmp_path)).write(tmp_path / "demo"))
    yield [("scale", replace(artifact)) for artifact in cache.op("scale").artifacts[:2]]


def test_every_second_round_is_in_the_reverse_order_and_asks_for_peers_alone(variants: Any) -> None:
    a, b = (artifact.key for _, artifact in variants)
    clock, watching = Clock({a: [1.0, 1.4, 1.1], b: [2.0, 2.0, 2.0]}), Watching()
    report = rounds(clock, variants, DEVICE, watching)
    assert [key for key, _, _ in clock.asked] == [a, b, b, a, a, b]
    assert clock.asked[0][1:] == (None, USUAL)
    assert clock.asked[2][1:] == ([{"n": 8}, {"n": 16}], ("peer",))
    first = next(row.timing for row in report.rows if row.key == a and row.timing.problem == {"n": 8})
    assert (first.microseconds, first.host) == (8.8, 3.5)
    assert first.spread == pytest.approx(1.6)  # half of 8.0 to 11.2
    assert len(report.rows) == 4 and watching.done == 6


def test_what_is_lost_is_told_and_keeps_what_it_had(variants: Any) -> None:
    a, b = (artifact.key for _, artifact in variants)
    clock, watching = Clock({a: [], b: [2.0]}), Watching()
    report = rounds(clock, variants, DEVICE, watching, count=2)
    assert [row.key for row in report.rows] == [b, b]
    assert [key for key, _, _ in clock.asked] == [a, b, b]  # the one that was lost at once is not tried again
    assert len(watching.kept) == 2 and all("SIGSEGV" in line for line in watching.kept)
    assert [reason for _, reason in report.left_out] == ["left out: the launching process ended: SIGSEGV"] * 2
    assert watching.done == 4


def test_given_problems_are_asked_for(variants: Any) -> None:
    a, b = (artifact.key for _, artifact in variants)
    clock = Clock({a: [1.0], b: [1.0]})
    report = rounds(clock, variants, DEVICE, Watching(), problems=[{"n": 5}], count=1, extras=())
    assert {str(row.timing.problem) for row in report.rows} == {"{'n': 5}"}
    assert [asked[1:] for asked in clock.asked] == [([{"n": 5}], ())] * 2


def test_the_gpu_is_measured_before_and_after_and_need_not_be_measurable(variants: Any) -> None:
    a, b = (artifact.key for _, artifact in variants)
    times = {a: [1.0], b: [1.0]}
    twice = Clock(times, [Ceilings(bandwidth=4000.0, rates={"float32": 50.0}), Ceilings(bandwidth=4100.0)])
    assert rounds(twice, variants, DEVICE, Watching(), count=1).ceilings == Ceilings(
        bandwidth=4100.0, rates={"float32": 50.0}
    )
    after = Clock(times, [Ceilings(bandwidth=4000.0), Lost("it hung")])
    report = rounds(after, variants, DEVICE, Watching(), count=1)
    assert report.ceilings == Ceilings(bandwidth=4000.0) and "it hung" in report.notes[0]
    never = rounds(Clock(times, [Lost("no torch")]), variants, DEVICE, Watching(), count=1)
    assert never.ceilings is None and len(never.rows) == 4 and "no torch" in never.notes[0]


def test_nothing_to_time_starts_nothing() -> None:
    watching = Watching()
    assert rounds(Clock({}), [], DEVICE, watching).rows == () and watching.lines == []


@given(st.lists(st.tuples(st.floats(1.0, 1e6), st.floats(0.0, 10.0)), min_size=1, max_size=5))
def test_two_copies_agree_within_their_spreads_if_they_took_the_same_rounds(found: list[tuple[float, float]]) -> None:
    """Whatever order the rounds had; and no round is further away from the result than the range allows."""
    timings = [Timing(problem={"n": 1}, microseconds=us, spread=spread) for us, spread in found]
    one, other = combined(timings), combined(timings[::-1])
    assert (one.microseconds, one.spread) == (other.microseconds, other.spread)
    assert all(abs(us - one.microseconds) <= 2 * one.spread + 1e-6 for us, _ in found)
