"""docs/kernels.md is what the stored files render to, and these name every op and manifest there is."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from precast.kernels.authoring.registry import known_ops
from tests.helpers.builds import kept_store, precast
from tests.helpers.source_tree import ROOT

BENCHMARKS = ROOT / "benchmarks"
SHIPPED = BENCHMARKS / "results" / "shipped.json"
AGAIN = "write it again: make kernels"


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the page, which is a file of benchmarks/."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("kernels_page")


@pytest.fixture
def lists(pages: ModuleType) -> ModuleType:
    return importlib.import_module("kernel_list")


def shipped() -> dict[str, Any]:
    return json.loads(SHIPPED.read_text())  # type: ignore[no-any-return]


def test_the_page_is_what_the_stored_files_render_to() -> None:
    script = "from kernel_list import rendered; print(rendered(), end='')"
    done = subprocess.run([sys.executable, "-c", script], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "kernels.md").read_text() == done.stdout, AGAIN


def test_every_op_and_every_manifest_is_on_it(pages: ModuleType) -> None:
    found = shipped()
    assert set(known_ops()) <= set(found["ops"]), AGAIN
    assert set(found["manifests"]) == {path.name for path in (ROOT / "manifests").glob("*.yaml")}, AGAIN
    assert all(counts for counts in found["manifests"].values())
    text = (ROOT / "docs" / "kernels.md").read_text()
    assert [op for op in found["ops"] if f"\n| `{op}` |" not in text] == []


def test_the_counts_are_those_of_a_plan(pages: ModuleType) -> None:
    done = precast(kept_store(), "plan", ROOT / "manifests" / "default.yaml", "--json")
    assert done.returncode == 0, done.stderr
    counts, _ = pages.shipped_by(json.loads(done.stdout))
    assert counts == shipped()["manifests"]["default.yaml"], AGAIN


def evidence(date: str, failed: list[str]) -> dict[str, Any]:
    found = {"gpu": "NVIDIA H200", "driver": "580", "date": date, "problems": 3, "failed": failed, "worst": 0.5}
    return {"evidence": {"scale": {"ab" * 32: found, "cd" * 32: {**found, "failed": []}}}}


def test_evidence_is_merged_and_the_last_counts(lists: ModuleType, pages: ModuleType, tmp_path: Path) -> None:
    lists.keep_verified(evidence("2026-11-21T09", ["out at n=1: wrong", "more"]), tmp_path)
    part = {"verify": json.loads((tmp_path / "nvidia-h200" / "verify.json").read_text())}
    assert pages.verified("scale", part) == "1; **1 wrong**"
    lists.keep_verified(evidence("2026-11-22T09", []), tmp_path)
    part = {"verify": json.loads((tmp_path / "nvidia-h200" / "verify.json").read_text())}
    assert pages.verified("scale", part) == "2"
    assert pages.verified("rmsnorm", part) == ""


def test_speed_is_that_of_the_fastest_variant_beside_the_fastest_peer(pages: ModuleType) -> None:
    def row(key: str, us: float, n: int, **peers: float) -> dict[str, Any]:
        timing = {"problem": {"n": n}, "microseconds": us, "bytes": n, "flops": 0, "peers": peers}
        return {"op": "scale", "key": key, "timing": timing}

    rows = [row("a", 40.0, 1, mul=80.0), row("b", 20.0, 1, mul=80.0, copy=40.0), row("c", 20.0, 2, mul=160.0)]
    found = {"kernels": {"machine": {"name": "NVIDIA H200"}, "data": {"rows": [*rows, {**rows[0], "op": "other"}]}}}
    assert pages.beside("scale", found) == "4.00 (copy, mul)"
    assert pages.beside("rmsnorm", found) == ""


JUNIT = """<testsuites><testsuite name="pytest" errors="0" failures="{failed}" skipped="1" tests="3"
timestamp="2026-11-22T23:51:33"><properties><property name="gpu" value="NVIDIA H200"/><property name="gpus" value="2"/>
<property name="driver" value="580"/></properties><testcase classname="tests.gpu.test_sums" name="a"/>
</testsuite></testsuites>"""


def test_the_tests_of_an_op_stand_where_they_passed(pages: ModuleType, lists: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT.format(failed=0))
    lists.keep_tested("sums", tmp_path / "junit.xml", tmp_path)
    found = {"tests": json.loads((tmp_path / "nvidia-h200" / "tests.json").read_text())}
    assert pages.verified("sums", found) == "2 tests on 2 GPUs (`tests/gpu/test_sums.py`)"
    (tmp_path / "junit.xml").write_text(JUNIT.format(failed=1))
    with pytest.raises(SystemExit, match="keep a run on a GPU in which all passed"):
        lists.keep_tested("sums", tmp_path / "junit.xml", tmp_path)
