"""``precast bench`` on a GPU: copies of one kernel take the same time, and nothing is faster than the GPU."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast import loader
from precast.loader.resolve.cache import Cache
from precast.measure.bench.report import Report
from precast.measure.bench.rounds import Variant, rounds
from precast.measure.launching.cases import launchable, obstacle, this_device
from precast.measure.on_gpu.launches import Launches

FOLDER = Path(__file__).with_name("copies")
COPIES = "copies.scale"
EACH = 2  # variants of an op that are timed for the roofline
OPS = ("scale", "rmsnorm", "flashinfer.rmsnorm", "gemm", "attention")


class Printing:
    """Who is told what goes on: the test's output."""

    def stage(self, text: str) -> None:
        print(text)

    def skip(self) -> None:
        pass

    def begin(self, name: str) -> None:
        pass

    def step(self, name: str, text: str, *, keep: bool = False) -> None:
        print(f"{name}: {text}")


def benched(cache: Cache, variants: list[Variant]) -> Report:
    with Launches(cache.path, 300.0) as launches:
        return rounds(launches, variants, this_device(), Printing())


def caches(op: str) -> Iterator[Cache]:
    """The installed caches that hold an op."""
    for found in loader.caches():
        if found.cache is not None and op in found.cache.index.ops:
            yield found.cache


def fitting(cache: Cache, op: str) -> list[Variant]:
    device = this_device()
    return [(name, artifact) for name, artifact in launchable(cache, [op]) if not obstacle(artifact, device)]


def test_copies_of_one_kernel_take_the_same_time_within_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = next(caches(COPIES), None)
    if cache is None:
        pytest.skip("no cache holds the copies: put one of tests/gpu/bench/copies.yaml in the kit")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")])))
    report = benched(cache, fitting(cache, COPIES))
    timings: dict[str, list[tuple[float, float, float]]] = {}
    for row in report.rows:
        timing = row.timing
        assert timing.warm and timing.host and "torch.mul" in timing.peers, timing
        timings.setdefault(str(timing.problem), []).append((timing.microseconds, timing.spread, timing.warm))
    assert len(timings) == 3
    steady = 0
    for problem, both in timings.items():
        (one, spread, warm), (other, other_spread, _) = both
        print(f"{problem}: {one:.2f} (+-{spread:.2f}) and {other:.2f} (+-{other_spread:.2f}) us; warm {warm:.2f}")
        assert abs(one - other) <= spread + other_spread, problem
        steady += sum(wide < max(0.5, 0.1 * one) for wide in (spread, other_spread))
    assert steady >= 4, "such spreads say nothing"  # of six; a neighbour on the machine may disturb one or two


def test_nothing_is_faster_than_the_gpu() -> None:
    """Of every cache at once: starting a process takes longer than timing what it launches."""
    told: Counter[str] = Counter()
    for cache in dict.fromkeys(cache for op in OPS for cache in caches(op)):
        report = benched(cache, [one for op in OPS if op in cache.index.ops for one in fitting(cache, op)[:EACH]])
        assert report.ceilings is not None, report.notes
        print(report.ceilings)
        for row, at in report.standings():
            if at is not None:
                told[row.op] += 1
                sizes = f"{dict(row.timing.problem)}: {row.timing.microseconds:.2f} us (+-{row.timing.spread:.2f})"
                print(f"{row.op} at {sizes}, share {at.share:.3f}, peers {dict(row.timing.peers)} {row.timing.notes}")
        assert [(row.op, row.timing) for row, at in report.standings() if at is not None and at.note] == []
    if not told:
        pytest.skip(f"no cache holds any of {', '.join(OPS)}")
