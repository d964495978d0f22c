"""What ``benchmarks/gemm_choose.py`` keeps of a tuning file, adds to it, and refuses."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from precast.build.measurements.tuning_file import Candidate, Group, TuningFile, sizes_of
from precast.loader.contract.format.target import Target
from tests.helpers.source_tree import ROOT

Add = Callable[[TuningFile, Group], TuningFile]
TIMES = {"a": {1: 1.0}, "b": {1: 2.0}}


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program, which imports others beside it."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("gemm_choose")


@pytest.fixture
def added(program: Any) -> Add:
    """A function of the program."""
    function: Add = program.added
    return function


def group(times: Mapping[str, Mapping[int, float]], gpu: str = "NVIDIA H200", code: str = "0") -> Group:
    """The times of variants at numbers of rows."""
    candidates = tuple(
        Candidate(
            tuned={"tile": tile}, code=code * 16, date="2026-01-01T00:00:00Z",
            times={sizes_of({"m": m}): took for m, took in column.items()},
        )
        for tile, column in times.items()
    )  # fmt: skip
    return Group(op="gemm", config={}, target=Target.parse("sm_90a"), gpu=gpu, candidates=candidates)


def test_sizes_that_are_there_stay_and_others_are_added(added: Add) -> None:
    other = group(TIMES, gpu="NVIDIA B200")
    measured = group({"a": {1: 9.0, 2: 3.0}, "c": {2: 1.0}})
    file = added(TuningFile(groups=(other, group(TIMES))), measured)
    assert file.groups == (other, group({"a": {1: 1.0, 2: 3.0}, "b": {1: 2.0}}))


def test_a_size_that_one_variant_lacks_is_no_further_size(added: Add) -> None:
    file = added(TuningFile(groups=(group({"a": {1: 1.0}, "b": {}}),)), group({"b": {1: 1.1}}))
    assert file.groups == (group({"a": {1: 1.0}, "b": {}}),)


def test_times_of_other_device_code_are_refused(added: Add) -> None:
    with pytest.raises(SystemExit, match=r"CACHE has other device code of .*'b'.*: choose anew, without --add"):
        added(TuningFile(groups=(group(TIMES),)), group({"b": {2: 1.0}}, code="1"))


def test_times_of_another_gpu_are_a_group_of_their_own(added: Add) -> None:
    other = replace(group(TIMES), gpu="NVIDIA B200")
    assert added(TuningFile(groups=(other,)), group({"c": {2: 1.0}})).groups == (other, group({"c": {2: 1.0}}))


def test_fewer_rows_than_were_measured_keep_their_times(program: Any) -> None:
    """Those of the device code that is built today; torch's time is not in the file."""
    usual = {"swap": False, "cluster": [1, 1], "split": 1, "residents": 1, "pingpong": False, "swizzle": 0}
    names = {}
    candidates = []
    for width, code in ((64, "0"), (128, "1")):
        tuned: dict[str, Any] = {"library": "precast", "tile": [8, width], **usual}
        names[width] = program.tuned_name(tuned)
        times = {sizes_of({"m": m}): float(m * width) for m in (8, 16, 64)}
        candidates.append(Candidate(tuned=tuned, code=code * 16, date="2026-01-01T00:00:00Z", times=times))
    old = replace(group({}), candidates=tuple(candidates))
    today = replace(old, candidates=(candidates[0], replace(candidates[1], code="2" * 16)))
    rows = program.few_rows(old, today, 64)
    assert [(row.problem, row.times) for row in rows] == [({"m": m}, {names[64]: float(m * 64)}) for m in (8, 16)]
    assert list(program.choose([*rows, program.Row({"m": 64}, 1.0, {"b": 1.0})], 2)) == [names[64], "b"]
    assert program.reached(rows, list(names.values())) == ""
