"""docs/building.md has the table of the kept results of ``benchmarks/kills.py``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.helpers.kills.rounds import KINDS

ROOT = Path(__file__).parents[3]


def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kills", ROOT / "benchmarks" / "kills.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_kept_results() -> None:
    assert program().page() == (ROOT / "docs" / "building.md").read_text()


def test_each_kind_was_struck_a_hundred_times_and_no_promise_was_broken() -> None:
    results: dict[str, dict[str, Any]] = json.loads((ROOT / "benchmarks" / "results" / "kills.json").read_text())
    assert results.keys() == set(KINDS)
    assert {kind: one["broken"] for kind, one in results.items() if one["broken"]} == {}
    assert {kind for kind, one in results.items() if sum(one["blows"].values()) < 100} == set()
