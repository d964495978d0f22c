"""The contests of memory-bound kernels: what they need is built, and the page says what they found."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.builds import kept_store, precast
from tests.helpers.source_tree import ROOT


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of benchmarks/ import each other, as where they are run."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.fixture
def run(benchmarks: None) -> ModuleType:
    return importlib.import_module("memory_bound")


@pytest.fixture
def pages(benchmarks: None) -> ModuleType:
    return importlib.import_module("performance_page")


@pytest.mark.slow
def test_the_manifest_has_every_contestant(run: ModuleType) -> None:
    done = precast(kept_store(), "plan", ROOT / "benchmarks" / "performance.yaml", "-t", "sm_90a", "--json")
    assert done.returncode == 0, done.stderr
    variants = json.loads(done.stdout)["variants"]

    def built(op: str, config: Mapping[str, Any]) -> bool:
        return any(v["op"] == op and config.items() <= v["config"].items() for v in variants)

    contests = list(run.contests())
    missing = [one for one in contests if not built(one.op, one.config)]
    missing += [each for one in contests for each in one.rivals if not built(each.op, each.config)]
    assert missing == [] and len(contests) > 20
    assert not built("softmax", {"dtype": "bfloat16", "width": 12345}), "otherwise everything would be there"


def row(op: str, us: float, moved: int, **peers: float) -> dict[str, Any]:
    return {
        "op": op, "config": {"dtype": "bfloat16", "hidden": 4096}, "chosen": {"threads": 256, "staged": False},
        "problem": {"rows": 16}, "bytes": moved, "us": us, "spread": 0.5, "copy": 9.5, "notes": [],
        "behind_writes": {"us": us + 1, "copy": 10.5},
        "peers": {name.replace("_", "."): taken for name, taken in peers.items()},
    }  # fmt: skip


def test_a_kernel_has_every_peer_and_losses_are_named(pages: ModuleType) -> None:
    rows = [
        row("rmsnorm", 10.0, 1 << 27, torch=20.0, torch_compile=9.0, quack_rmsnorm=12.0, flashinfer_rmsnorm=10.0),
        {**row("rmsnorm", 5.0, 1 << 10, torch=20.0), "problem": {"rows": 1}},
        row("softmax", 12.5, 1 << 27, quack_softmax=50.0),
        row("add", 5.0, 1 << 20),
    ]
    lines = list(pages.memory_bound({"rows": rows}))
    text = "\n".join(lines)
    (line,) = [line for line in lines if line.startswith("| `rmsnorm`")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["`rmsnorm`: hidden 4096", "rows 16, 1", "13422", "0.95", "2.83", "0.90", "1.20", "1.00"]
    assert "2 sizes move 64 MB or more: 1 of them reach 0.92 of a copy's speed or\nmore, the lowest 0.76." in text
    assert "Below 0.92: `softmax` 4096 rows 16 0.76." in text
    assert "- torch.compile: ours runs at 0.90 times its speed (geometric mean of 1 size)\n" in text
    assert "slower by more than 3% at 1: `rmsnorm` 4096 rows 16 0.90." in text
    assert "- quack: ours runs at 2.19 times its speed (geometric mean of 2 sizes)" in text
    assert text.count("3% at 0: none.") == 3, "a peer that is as fast is not a loss"


def test_a_kernels_page_counts_contests_as_well(benchmarks: None) -> None:
    page = importlib.import_module("kernels_page")
    data = {"rows": [row("rmsnorm", 10.0, 8, torch=40.0, quack_rmsnorm=20.0), row("add", 5.0, 8)]}
    found = {"memory-bound": {"machine": {"name": "NVIDIA H200"}, "data": data}}
    assert page.beside("rmsnorm", found) == "2.00 (quack)"
    assert page.beside("add", found) == ""
