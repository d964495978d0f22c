"""The kernels of tests/gpu/wrong.yaml are emulated: each wrong one is found, and the right one is not blamed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.helpers.builds import kept_store, precast
from tests.helpers.source_tree import ROOT

pytestmark = [pytest.mark.slow]

MANIFEST = ROOT / "tests" / "gpu" / "wrong.yaml"
# Of each kind, the scenario in which it must be found, and what must be said of it there.
WRONG = {
    "tail": ("first run", "values differ"),
    "race": ("first run", "race: a read of shared memory"),
    "behind": ("first run", "out of bounds: a write of 4 bytes"),
    "before": ("first run", "it begins 4 bytes before out"),
    "unwritten": ("first run", "1 left unwritten or NaN"),
    "changed": ("first run", "write to an input: a write of 4 bytes"),
    "stride": ("first run", "values differ"),
    "stream": ("first run", "on another stream than the caller's"),
    "zero": ("with zeros", "nan instead of 0"),
    "again": ("second run", "values differ"),
    "reads": ("first run", "out of bounds: a read of 4 bytes"),
}
TOO_LARGE = "huge"  # wrong beyond 2**31 elements, which only a GPU runs
TARGET = "sm_90a"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """What is wrong with each kind."""
    folder = tmp_path_factory.mktemp("wrong")
    cache, store = folder / "cache", kept_store()
    done = precast(store, "build", MANIFEST, "-o", cache, "-j", 1, "-t", TARGET)
    assert done.returncode == 0, done.stderr
    path = {"PYTHONPATH": str(MANIFEST.with_name("wrong"))}
    report: dict[str, Any] = json.loads(precast(store, "verify", cache, "--emulate", "--json", **path).stdout)
    assert not report["refused"] and not report["left_out"]
    return {
        op.removeprefix("wrong."): entry["failed"] for op, keys in report["evidence"].items() for entry in keys.values()
    }


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_kernel_is_found(failed: Mapping[str, list[str]], kind: str) -> None:
    scenario, words = WRONG[kind]
    assert [text for text in failed[kind] if scenario in text and words in text], failed[kind]


def test_what_is_right_or_too_large_is_not_blamed(failed: Mapping[str, list[str]]) -> None:
    assert failed["right"] == [] and failed[TOO_LARGE] == []
    assert failed.keys() == {*WRONG, "right", TOO_LARGE}
