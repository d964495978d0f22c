"""docs/performance.md is what the stored results render to, and the page has their figures."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from precast.build.measurements.tuning_file import TuningFile
from tests.helpers.pages import text_of
from tests.helpers.source_tree import ROOT

MACHINE = {
    "name": "NVIDIA H200", "driver_version": "580.1", "clocks.max.sm": "1980 MHz", "clocks.max.mem": "3201 MHz",
    "power.limit": "700.00 W", "torch": "2.11", "cuda": "12.9",
}  # fmt: skip


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of these files imports another, as where it is run."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def module(name: str) -> ModuleType:
    """A file of benchmarks/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # its dataclasses look for it there
    spec.loader.exec_module(made)
    return made


def timing(us: float, **more: Any) -> dict[str, Any]:
    made = {"problem": {"rows": 32768, "padding": 0}, "microseconds": us, "spread": 0.5, "bytes": 10**9, "flops": 10**9}
    return {**made, "written": 0, "warm": 90.0, "host": 3.6, "just_in_time": 0.0, "peers": {}, "notes": [], **more}


def row(key: str, us: float, **more: Any) -> dict[str, Any]:
    return {
        "op": "rmsnorm",
        "key": key,
        "target": "sm_90a",
        "config": {"dtype": "bfloat16", "hidden": 4096, "tile": [64, 128], "operator": ""},
        "timing": timing(us, **more),
        "roofline": {"share": 0.875, "least": 1.0, "bound": "memory", "note": ""},
    }


def product(m: int, ratio: float) -> dict[str, Any]:
    size = {"model": "Qwen 3 8B", "layer": "o", "m": m, "n": 4096, "k": 4096}
    times = {"ours": 10.0, "torch": 10 * ratio, "best": 9.5}
    return {"size": size, **times, "ratio": ratio, "spread": 0.01, "best_config": "t"}


def result(what: str, value: float, unit: str, most: float | None = None) -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "at_most": most, "at_least": None}


def results() -> dict[str, dict[str, Any]]:
    def part(name: str, data: Any) -> dict[str, Any]:
        return {"part": name, "command": f"run {name}", "date": "2026-11-22", "machine": MACHINE, "data": data}

    rows = [
        row("a", 250.0, peers={"torch": 400.0}),
        row("b", 240.0, peers={"torch | mul": 300.0, "slow": 900.0}),
        row("c", 4.0, bytes=8),
    ]
    summary = {"geometric_mean": 1.014, "least": 0.912, "at_least_torch": 0.5, "of_best": 0.97}
    summary |= {"best_geometric_mean": 1.05}
    gemm = {"dtype": "bfloat16", "summary": summary, "rows": [product(6000, 1.2), product(3, 0.9)]}
    found = {"call": [result("precast", 3.61, "us"), result("ratio", 1.2, "", 1.25)], "none": []}
    kernels = {"ceilings": {"bandwidth": 4200.0, "rates": {"bfloat16": 780.0}}, "rows": rows}
    parts = {"kernels": kernels, "gemm-bfloat16": gemm, "loader": found}
    return {"nvidia-h200": {name: part(name, data) for name, data in parts.items()}}


def test_the_page_is_what_the_stored_results_render_to() -> None:
    """Otherwise: ``python benchmarks/performance.py``."""
    script = "from performance import page, stored; print(page(stored()), end='')"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "performance.md").read_text() == done.stdout


def test_every_figure_stands_beside_its_peer_and_its_machine() -> None:
    lines = module("performance_page").page(results()).splitlines()
    assert "## NVIDIA H200" in lines
    facts = "driver 580.1, torch 2.11, CUDA 12.9, clocks up to 1980 MHz and 3201 MHz (memory), limited to 700.00 W."
    assert facts in lines and "`run kernels`, 2026-11-22." in lines
    (kernel,) = [line for line in lines if line.startswith("| `rmsnorm`")]  # of the same work the fastest alone
    first, *cells = (cell.strip(" |") for cell in kernel.split(" | "))
    assert first == "`rmsnorm`: dtype bfloat16, hidden 4096, tile 64x128"
    assert cells[:5] == ["rows 32768", "240.0", "0.5", "90.0", "3.6"]
    assert cells[5:] == ["4167", "4.2", "0.875", "torch \\| mul", "1.25"]
    assert "| up to 64 | 1 | 10 to 10 | 0.900 | 0.900 |" in lines
    assert "| above | 1 | 20133 to 20133 | 1.200 | 1.200 |" in lines
    assert "| ratio | 1.200 | at most 1.25 |" in lines and "**none**" not in lines


def test_the_page_opens_with_one_row_of_numbers_with_units() -> None:
    title, row, line, below, _ = [line for line in text_of("docs/performance.md").splitlines() if line][:5]
    assert title == "# Performance" and set(line) == set("| -")
    numbers = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(numbers) == len(below.strip("|").split("|")) == 5
    assert all(re.fullmatch(r"[\d.]+(?:\u00d7 torch|\u00d7 a copy| us)", number) for number in numbers), numbers


def test_parts_of_different_machines_name_their_own() -> None:
    found = results()
    found["nvidia-h200"]["loader"]["machine"] = {**MACHINE, "driver_version": "590.2"}
    page = module("performance_page").page(found)
    assert "`run kernels`, 2026-11-22: driver 580.1, " in page and "`run loader`, 2026-11-22: driver 590.2, " in page


def test_the_same_results_give_the_same_page_in_any_order() -> None:
    page, found = module("performance_page").page, results()
    other = json.loads(json.dumps(found))
    other["nvidia-h200"] = dict(reversed(other["nvidia-h200"].items()))
    other["nvidia-h200"]["kernels"]["data"]["rows"].reverse()
    other["nvidia-h200"]["gemm-bfloat16"]["data"]["rows"].reverse()
    assert page(other) == page(found)
    two = {"z": copy.deepcopy(found["nvidia-h200"]), **found}
    assert page(two) == page(dict(reversed(two.items())))


def test_stored_results_are_small_and_sorted() -> None:
    for path in sorted((ROOT / "benchmarks" / "results").rglob("*.json")):
        text = path.read_text()
        assert text == json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n" and len(text) < 1 << 20, path


def test_the_sizes_of_products_are_of_twenty_layers_and_fit_the_kernels() -> None:
    found = module("gemm").sizes()
    assert len(found) == len(set(found)) >= 100 and len({(size.n, size.k) for size in found}) >= 20
    assert all(size.n % 16 == 0 and size.k % 16 == 0 and 1 <= size.m <= 16384 for size in found)
    assert sum(65 <= size.m <= 1024 for size in found) >= 30


def tuned_layers() -> dict[tuple[int, int], str]:
    """The (n, k) of every tuning file, and the file."""
    found = {}
    for path in sorted((ROOT / "manifests" / "tuning").glob("*.json")):
        file = TuningFile.decode(path.read_bytes())
        for sizes in (dict(sizes) for group in file.groups for sizes in group.problems):
            if "n" in sizes and "k" in sizes:
                found[sizes["n"], sizes["k"]] = path.name
    return found


def test_no_tuning_file_has_a_layer_that_products_are_measured_at() -> None:
    tuned = tuned_layers()
    assert tuned[4096, 14336] and len(tuned) > 15
    unseen = {(size.n, size.k): f"{size.model}, {size.layer}" for size in module("gemm").sizes()}
    assert {name: tuned[layer] for layer, name in unseen.items() if layer in tuned} == {}


def test_the_summary_of_products() -> None:
    gemm = module("gemm")

    def one(ratio: float, spread: float, best: float) -> Any:
        size = gemm.Size(model="a", layer="o", m=1, n=16, k=16)
        return gemm.Timed(size=size, ours=10.0, torch=10 * ratio, ratio=ratio, spread=spread, chosen="c", best=best)

    found = gemm.summary([one(0.5, 0.1, 5.0), one(2.0, 0.1, 10.0)])
    assert (found["sizes"], found["geometric_mean"], found["least"]) == (2.0, 1.0, 0.5)
    assert (found["at_least_torch"], found["of_best"], found["best_geometric_mean"]) == (0.5, 0.7071, 1.4142)
    assert "of_best" not in gemm.summary([one(1.0, 0.0, 0.0)])


def test_a_part_whose_op_a_cache_lacks_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and counts as nothing missed; without that it would launch, and find nothing."""
    run = module("performance")
    monkeypatch.setattr(run, "ops_of", lambda cache: ("gemm",))
    monkeypatch.setattr(run, "machine", lambda: MACHINE)
    assert run.main(["--cache", str(tmp_path / "c"), "--parts", "llama", "--results", str(tmp_path / "r")]) == 0
    assert "llama: left out: " in capsys.readouterr().out
    assert not list((tmp_path / "r").glob("*/*.json"))
