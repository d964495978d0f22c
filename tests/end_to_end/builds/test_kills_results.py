"""The kept results of ``benchmarks/kills.py``, of which docs/building.md speaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.helpers.kills.rounds import KINDS

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "kills.json"


def test_each_kind_was_struck_a_hundred_times_and_no_promise_was_broken() -> None:
    results: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text())
    assert results.keys() == set(KINDS)
    assert {kind: one["broken"] for kind, one in results.items() if one["broken"]} == {}
    assert {kind for kind, one in results.items() if sum(one["signals"].values()) < 100} == set()
