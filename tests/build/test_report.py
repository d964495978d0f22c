"""What a build says of itself at its end, and event by event."""

from __future__ import annotations

import json

from precast.build.report import Built, Report, Step
from tests.helpers.variants import variant


def report() -> Report:
    facts = tuple(
        Built(variant=variant(n), seconds=float(n), size=100 - n, spilled=n if n % 2 else 0) for n in range(6)
    )
    return Report(built=tuple(b.variant for b in facts), reused=(), failed=(), files=3, size=600, facts=facts)


def test_the_slowest_the_largest_and_all_that_spill() -> None:
    made = report()
    assert [b.seconds for b in made.slowest()] == [5.0, 4.0, 3.0]
    assert [b.size for b in made.largest()] == [100, 99, 98]
    assert [b.spilled for b in made.spilling()] == [5, 3, 1]


def test_events_are_json() -> None:
    started = Step(done=0, total=2, variant=variant(1), state="started").to_json()
    failed = Step(done=1, total=2, variant=variant(1), state="failed", reason="no").to_json()
    last = report().to_json()
    for event in (started, failed, last):
        json.dumps(event, allow_nan=False)
    assert started["event"] == "started" and started["variant"]["op"] == "mine.op"
    assert failed["reason"] == "no"
    assert last["event"] == "report" and last["built"] == 6
    assert last["spilling"][0] == {
        "variant": str(variant(5)), "seconds": 5.0, "size": 95, "spilled": 5, "closed": "none", "unlaunchable": "",
    }  # fmt: skip
