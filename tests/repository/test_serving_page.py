"""docs/serving.md has the table, and docs/images the picture, that the stored results render to."""

from __future__ import annotations

import importlib.util
import json
import sys
import xml.etree.ElementTree as ElementTree
from types import ModuleType

import pytest

from tests.helpers.source_tree import ROOT


@pytest.fixture
def page() -> ModuleType:
    """benchmarks/serving_page.py, which is no package."""
    spec = importlib.util.spec_from_file_location("serving_page", ROOT / "benchmarks" / "serving_page.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def test_page_and_picture_are_those_of_the_results(page: ModuleType) -> None:
    stale = [path.name for path, text in page.pages().items() if path.read_text() != text]
    assert not stale, "run: python benchmarks/serving_page.py"


def test_every_run_that_is_shown_was_right(page: ModuleType) -> None:
    """Each has answered, the same from the cache and just-in-time, and ended cleanly."""
    runs = json.loads(page.STARTS.read_text())["runs"]
    assert not [run for run in runs if "failed" in run or run["exit"] != 0]
    assert len({run["mark"] for run in runs}) == 1 and all(run["mark"] is not None for run in runs)
    assert json.loads(page.LOAD.read_text())["faults"] == []


def test_a_bar_is_as_long_as_its_parts(page: ModuleType) -> None:
    phases = {"imports": 2.0, "preload": 0.5, "model": 0.25, "warm-up": 1.0}
    run = {"case": "a <b> & c", "listens": 4.0, "answered": 5.0, "phases": phases}
    memory = {"resident": 10.0, "anonymous": 5.0}
    slow = {**run, "case": "slow", "listens": 9.0, "answered": 10.0, "memory": memory}
    results = {"machine": {"gpu": "G", "python": "3", "torch": "2"}, "runs": [{**run, "memory": memory}, slow]}
    drawn = ElementTree.fromstring(page.picture(results))
    name = "{http://www.w3.org/2000/svg}"
    widths = [float(box.attrib["width"]) for box in drawn.iter(f"{name}rect") if box.find(f"{name}title") is not None]
    first, second = sum(widths[:6]), sum(widths[6:])
    assert second == pytest.approx(2 * first, abs=1) and len(widths) == 12
    assert "a <b> & c" in [text.text for text in drawn.iter(f"{name}text")]
    assert "| slow | 1 | 9.0 (9.0 to 9.0) | 10.0 (10.0 to 10.0) | 10 | 5 |" in page.table(results)
