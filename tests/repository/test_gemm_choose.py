"""Further sizes for the variants of a tuning file: what ``benchmarks/gemm_choose.py --add`` keeps, adds and refuses."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from precast.build.measurements.tuning_file import Candidate, Group, sizes_of
from precast.loader.contract.format.target import Target
from tests.helpers.source_tree import ROOT

DATE = "2026-01-01T00:00:00Z"


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, which imports others beside it."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("gemm_choose")


def name_of(tuned: Mapping[str, Any]) -> str:
    return str(tuned["tile"])


def group() -> Group:
    known = sizes_of({"m": 1})
    candidates = tuple(
        Candidate(tuned={"tile": tile}, code=tile * 16, date=DATE, times={known: took}, tiling=None)
        for tile, took in (("a", 1.0), ("b", 2.0))
    )
    return Group(op="gemm", config={}, target=Target.parse("sm_90a"), gpu="NVIDIA H200", candidates=candidates)


def test_sizes_that_are_there_stay_and_others_are_added(choose: ModuleType) -> None:
    row = choose.Row
    rows = [row({"m": 1}, 1.0, {"a": 9.0, "b": 9.0}), row({"m": 2}, 1.0, {"a": 3.0, "b": 3.1, "c": 1.0})]
    a, b = choose.added(group(), rows, {"a": "a" * 16, "c": "x"}, name_of).candidates
    assert a.times == {sizes_of({"m": 1}): 1.0, sizes_of({"m": 2}): 3.0}
    assert b.times == {sizes_of({"m": 1}): 2.0, sizes_of({"m": 2}): 3.1}


def test_times_of_other_device_code_are_refused(choose: ModuleType) -> None:
    with pytest.raises(SystemExit, match="CACHE has other device code of b: choose anew, without --add"):
        choose.added(group(), [], {"b": "c" * 16}, name_of)
