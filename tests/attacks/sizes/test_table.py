"""docs/security.md has the table of the kept results of ``benchmarks/hostile.py``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[3]
SECOND = 1.0


def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile", ROOT / "benchmarks" / "hostile.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_kept_results() -> None:
    assert program().page() == (ROOT / "docs" / "security.md").read_text()


def test_what_was_measured_took_less_than_a_second() -> None:
    results: dict[str, dict[str, dict[str, Any]]] = json.loads(
        (ROOT / "benchmarks" / "results" / "hostile.json").read_text()
    )["after"]
    late = {name: one["seconds"] for name, both in results.items() for one in both.values() if one["seconds"] >= SECOND}
    assert len(results) == 15 and not late
