"""docs/deployment.md has the table that the stored results render to."""

from __future__ import annotations

import importlib
import json
from types import ModuleType

import pytest

from tests.helpers.source_tree import ROOT


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/serving_page.py, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("serving_page")


def test_the_page_is_that_of_the_results(page: ModuleType) -> None:
    stale = [path.name for path, text in page.pages().items() if path.read_text() != text]
    assert not stale, "run: python benchmarks/serving_page.py"


def test_every_run_that_is_shown_was_right(page: ModuleType) -> None:
    """Each has answered, the same from the cache and just-in-time, and ended cleanly."""
    runs = json.loads(page.STARTS.read_text())["runs"]
    assert not [run for run in runs if "failed" in run or run["exit"] != 0]
    assert len({run["mark"] for run in runs}) == 1 and all(run["mark"] is not None for run in runs)
    assert json.loads(page.LOAD.read_text())["faults"] == []
