"""The pure parts of ``benchmarks/engine_start``: which files travel and how, what is compared, and the table."""

from __future__ import annotations

import doctest
import importlib
import io
import json
import random
import struct
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.source_tree import ROOT

FOLDER = ROOT / "benchmarks" / "engine_start"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A file of the folder, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module(name)


@pytest.mark.parametrize("name", ["cells", "fatbin", "page", "selection"])
def test_the_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctest.testmod(load(name, monkeypatch)).failed == 0


def test_an_error_in_a_start_leaves_its_gpu_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("run", monkeypatch)
    machine = module.Machine(tmp_path)
    monkeypatch.setattr(machine, "start", lambda cell, gpu: json.loads("half of a resul"))
    run = module.Run(machine, float("inf"), None)
    run.free.put(3)
    with pytest.raises(json.JSONDecodeError):
        run.chain(module.CELLS[:1])
    assert run.free.get(timeout=1) == 3


def fatbin(*entries: tuple[int, int, bytes]) -> bytes:
    """A container of GPU code: kind, architecture and code of each entry."""
    body = b""
    for kind, arch, code in entries:
        body += struct.pack("<HHIQQII", kind, 257, 64, len(code), 0, 0, arch) + bytes(32) + code
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_code_for_other_gpus_becomes_zeros_and_sizes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("fatbin", monkeypatch)
    whole = b"text" + fatbin((2, 80, b"old " * 8), (2, 90, b"ours" * 8)) + bytes(5) + fatbin((1, 70, b"ptx!" * 8))
    data = bytearray(whole)
    assert module.blank(data, 90) == 32
    assert data == whole.replace(b"old " * 8, bytes(32)), "machine code for 90 stays, and the only PTX"
    assert module.blank(data, 90, everything=True) == 96 and b"ours" not in data and len(data) == len(whole)


def test_pieces_are_below_the_limit_and_give_the_files_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("pieces", monkeypatch)
    monkeypatch.setattr(module, "SLICE", 10_000)
    noise = random.Random(0)
    files = {f"folder/{number}": noise.randbytes(size) for number, size in enumerate((0, 700_000, 5, 9_999, 120_001))}
    limit = 400_000
    paths = module.pack([(name, 0o755, data) for name, data in files.items()], tmp_path, limit)
    assert len(paths) == 3 and max(path.stat().st_size for path in paths) < limit
    for path in reversed(paths):
        module.unpack(path, tmp_path / "out")
    out = {f"folder/{path.name}": path.read_bytes() for path in (tmp_path / "out" / "folder").iterdir()}
    assert out == files
    assert all(path.stat().st_mode & 0o100 for path in (tmp_path / "out" / "folder").iterdir())


EVENTS = [
    {"kind": "DSL", "name": "f", "seconds": 4.0, "at": 20.0},
    {"kind": "Triton", "name": "k", "seconds": 1.0, "at": 25.0},
    {"kind": "DSL", "name": "g", "seconds": 2.0, "at": 33.0},
    {"kind": "process ptxas", "name": "ptxas x", "seconds": 0.5, "at": 34.0},
]


def result(name: str, **more: Any) -> dict[str, Any]:
    marks = {"vllm imported": 10.0, "ready": 30.0, "first token": 33.5, "all prompts": 40.0}
    answers = {"tokens": [[1, 2], [3]], "logprobs": [[-9.0, -8.0], [-8.5]]}
    return {"cell": name, "marks": marks, "events": [], "memory": 100, "served": [], **answers, **more}


def archive_of(path: Path, results: list[dict[str, Any]]) -> Path:
    names = ("vllm", "torch", "triton", "nvidia-cutlass-dsl", "apache-tvm-ffi")
    machine = {"gpu": "a GPU", "python": "3.12", **dict.fromkeys(names, "1")}
    with tarfile.open(path, "w:gz") as tar:
        for name, value in [("machine.json", machine)] + [(f"results/{r['cell']}.json", r) for r in results]:
            text = json.dumps(value).encode()
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return path


NOTHING: dict[str, Any] = {"machines": {}, "cells": []}


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is kept of a compiled start, a served one that answers otherwise, one that fails, and a server."""
    served = result("eager, warm, served, no compiler", served=[["m:f", 2, 0], ["m:g", 1, 0]], tokens=[[1, 9], [3]])
    failed = {"cell": "eager, warm, no compiler, no precast", "failed": "ModuleNotFoundError: cutlass", "events": []}
    server = {"cell": "server, warm", "marks": {"ready": 5.0, "first token": 6.0, "all prompts": 7.0}, "events": []}
    results = [server, served, failed, result("eager, cold", events=EVENTS)]
    page = load("page", monkeypatch)
    kept: dict[str, Any] = page.merged(NOTHING, page.collected(archive_of(tmp_path / "results.tgz", results)))
    return kept


def test_a_start_is_compared_with_the_compiled_one_of_its_model(stored: dict[str, Any]) -> None:
    cold, served, server, failed = stored["cells"]
    assert [cold["cell"], served["cell"]] == ["eager, cold", "eager, warm, served, no compiler"], "in the cells' order"
    assert "compared" not in cold and served["compared"] == {"equal": 2, "of": 3, "largest": 0}
    assert served["served"] == [3, 0] and failed["failed"].endswith("cutlass") and server["marks"]["ready"] == 5.0


def test_a_further_archive_replaces_its_own_starts(
    stored: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = load("page", monkeypatch)
    name = "SGLang, Llama with FlashAttention-4, cold"
    both = page.merged(stored, page.collected(archive_of(tmp_path / "sglang.tgz", [result(name)])))
    assert [row["cell"] for row in both["cells"][-2:]] == ["eager, warm, no compiler, no precast", name]
    assert both["cells"][:-1] == stored["cells"] and list(both["machines"]) == ["vllm", "sglang"]
    again = page.merged(both, page.collected(archive_of(tmp_path / "again.tgz", [result("eager, cold", memory=7)])))
    assert [row["cell"] for row in again["cells"]] == [row["cell"] for row in both["cells"]]
    assert again["cells"][0]["memory"] == 7 and again["cells"][1] == both["cells"][1]


def test_graphs_of_a_wheel_are_compared_with_the_start_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = result("graph, cold, served, recorded", tokens=[[1, 9], [3]])
    start = result("graph, one wheel, served, no compilers", tokens=[[1, 9], [3]])
    page = load("page", monkeypatch)
    archive = archive_of(tmp_path / "results.tgz", [recorded, start, result("graph, cold")])
    rows = page.collected(archive)["cells"]
    assert recorded["cell"] not in rows and rows[start["cell"]]["compared"]["equal"] == 3


def test_compilations_are_counted_to_the_first_token_and_from_ready(stored: dict[str, Any]) -> None:
    cold = stored["cells"][0]
    assert cold["kinds"] == {"DSL": [2, 6.0], "Triton": [1, 1.0], "process ptxas": [1, 0.5]}
    assert cold["until first token"] == {"DSL": [2, 6.0], "Triton": [1, 1.0]}
    assert cold["after ready"] == {"DSL": [1, 2.0], "process ptxas": [1, 0.5]}


def test_the_table_has_a_line_for_each_model_and_mode(stored: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = load("page", monkeypatch).table(stored["cells"]).splitlines()[2:]
    assert lines == [
        "| vLLM, Gemma 4 with experts, eager | 33.5 |  | 33.5 |  | 2, 6.0 s |  | 100 |",
        "| the same, `vllm serve` |  | 6.0 |  |  |  |  |  |",
    ]


def test_starts_that_fail_or_answer_otherwise_are_listed(
    stored: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = load("page", monkeypatch).answers(stored["cells"]).splitlines()
    assert first.startswith("0 of 1 starts")
    assert [line for line in others if line] == [
        "- *eager, warm, served, no compiler*: 2 of 3 tokens, largest difference 0",
        "- *eager, warm, no compiler, no precast*: `ModuleNotFoundError: cutlass`",
    ]


def test_every_kernel_of_a_served_start_was_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the DSL compiles with empty caches, and none was missing: the page says so."""
    page = load("page", monkeypatch)
    for starts in page.groups(json.loads(page.RESULTS.read_text())["cells"]).values():
        for start in {page.SERVED, "one wheel, served, no compilers"} & starts.keys():
            served = starts[start].get("served")
            assert served is None or (served[1] == 0 and "DSL" not in starts[start]["kinds"])
            if served and "cold" in starts:
                assert served[0] == starts["cold"]["kinds"].get("DSL", [0])[0]


def test_the_page_is_that_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    page = load("page", monkeypatch)
    written = page.pages(json.loads(page.RESULTS.read_text()))
    stale = [path.name for path, text in written.items() if path.read_text() != text]
    assert not stale, "run: python benchmarks/engine_start/page.py"


def test_the_first_screens_have_the_figures_of_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["cell"]: row for row in json.loads(load("page", monkeypatch).RESULTS.read_text())["cells"]}
    starts = load("pictures.engine", monkeypatch).CASES
    cold, warm, served = (f"{rows[start]['marks']['first token']:.0f}" for start in starts)
    figures = f"{cold} with empty caches, {warm} with warm ones, {served} with kernels from precast"
    assert figures in (ROOT / "README.md").read_text()
    assert f"**{served} seconds instead of {warm}**" in (ROOT / "docs" / "README.md").read_text()
