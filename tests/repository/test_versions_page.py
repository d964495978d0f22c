"""docs/versions.md: its table is what benchmarks/version_matrix.py saw, and says what it did not."""

from __future__ import annotations

import importlib
import json
from types import ModuleType
from typing import Any

import pytest

from precast.build.link.versions import RELEASES, known_versions
from tests.helpers.source_tree import ROOT

BENCHMARKS = ROOT / "benchmarks"
PAGE = (ROOT / "docs" / "versions.md").read_text()


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("version_matrix")


def cell(**changed: Any) -> dict[str, Any]:
    """A cell in which all went well."""
    seen: dict[str, Any] = {"built": 6, "failed": {}, "trouble": "", "unlike": [], "other_bytes": []}
    return {"dsl": "4.8.1", "cuda": 13, "python": "3.14", "loaded": {"3.14": 6}, **seen, **changed}


def test_the_table_is_what_was_seen(matrix: ModuleType) -> None:
    kept = json.loads(matrix.KEPT.read_text())
    again = "write it again: benchmarks/version_matrix.py --page docs/versions.md"
    assert matrix.BEGIN + matrix.table(kept) + matrix.END in PAGE, again
    assert {matrix.release_of(one["dsl"]).dsl for one in kept["cells"]} == {release.dsl for release in RELEASES}


def test_the_page_names_the_versions_of_the_table() -> None:
    assert f"versions {known_versions()}, for CUDA 12 and 13" in PAGE
    assert f"| | {' | '.join(release.dsl for release in RELEASES)} |" in PAGE
    for cuda in (12, 13):
        numbers = " | ".join(release.cuda[cuda] for release in RELEASES)
        assert f"| its libraries for CUDA {cuda} were made with | {numbers} |" in PAGE


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, "6 of 6"),
        ({"failed": {"a": "x"}}, "6 of 7"),
        ({"unlike": ["a"]}, "6 of 6; 1 with another signature"),
        ({"other_bytes": ["a", "b"]}, "6 of 6; 2 of other bytes"),
        ({"loaded": {"3.14": 5, "3.11": 6}}, "6 of 6; not all loaded with 3.14"),
        ({"loaded": {}}, "6 of 6; not all loaded with"),
        ({"trouble": "no wheels"}, "none"),
    ],
)
def test_a_cell_says_what_went_wrong(matrix: ModuleType, changed: dict[str, Any], text: str) -> None:
    assert matrix.text_of(cell(**changed)).strip() == text


def test_reasons_stand_below_the_table(matrix: ModuleType) -> None:
    cells = [cell(failed={"sgemm(tile=1) for sm_90a": "no"}), cell(dsl="4.6.2", trouble="a\nno wheels")]
    kept = {"cells": cells, "manifests": ["default", "rows"], "shard": "1/12", "targets": ["sm_90a"]}
    text = matrix.table(kept)
    assert text.startswith("Variants of default and rows, part 1/12, for sm_90a:\n\n| DSL |")
    assert "- 4.8.1: sgemm: no\n" in text and "- 4.6.2 under 3.14: no wheels\n" in text
    assert "| 4.8.1 | 13.4 | 6 of 7 |" in text and "| 4.6.2 | 13.3 | none |" in text
