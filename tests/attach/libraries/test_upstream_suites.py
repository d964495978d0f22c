"""What runs other libraries' tests attached: what it counts, what it leaves out, and what it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.upstream.suites import SUITES, Suite
from tests.gpu.upstream.table import read, render

GPU_TESTS = Path(__file__).resolve().parents[2] / "gpu"
LIBRARY = """
def compile(added):
    import cutlass.cute
    return cutlass.cute.compile(lambda number: number)
"""
DECLARED = """
from precast.attach import Functions, Library
LIBRARY = Library(name="toy", distribution="toy", package="toy", seams=(Functions("toy", ("compile",)),))
"""
# A cache that holds what adds less than 10, in place of one with kernels that only a GPU could launch.
CONFTEST = """
from types import SimpleNamespace
from precast.attach import attachment
from precast.loader.errors import OpNotFound

class Kernel:
    artifact = SimpleNamespace(provenance={})

    def __init__(self, config):
        self.config = config

    def __call__(self, number):
        return number + self.config["added"]

def get(op, config, *, target=None):
    if config["added"] > 9:
        raise OpNotFound(op)
    return Kernel(config)

attachment.api = SimpleNamespace(get=get)
"""
TESTS = """
import pytest
import toy

def test_right():
    assert toy.compile(2)(1) == 3

def test_wrong():
    assert toy.compile(2)(1) == 4

def test_missing():
    toy.compile(10)

def test_missing_and_wrapped():
    try:
        toy.compile(10)
    except BaseException as error:
        raise RuntimeError("elsewhere") from error

def test_missing_and_passed_over():
    assert toy.compile(2)(1) == 3
    with pytest.raises(BaseException):
        toy.compile(10)

def test_nothing_launched():
    toy.compile(2)

def test_compiled():
    import cutlass.cute
    assert toy.compile(2)(1) == 3
    with pytest.raises(RuntimeError):
        cutlass.cute.compile(test_right)

@pytest.fixture
def broken():
    raise ValueError("no fixture")

def test_broken(broken):
    pass

@pytest.mark.skip(reason="says so itself")
def test_skipped():
    pass

@pytest.mark.parametrize("use_compile", [False, True])
@pytest.mark.parametrize("n", range(5))
def test_sampled(n, use_compile):
    assert toy.compile(n)(1) == n + 1
"""
VERDICTS = {
    "right": ("passed", ""),
    "wrong": ("failed", "assert 3 == 4"),
    "missing": ("not built", "toy:compile: no cache holds attach.toy.compile_"),
    "missing_and_wrapped": ("not built", "toy:compile: no cache holds attach.toy.compile_"),
    "missing_and_passed_over": ("not built", "toy:compile: no cache holds attach.toy.compile_"),
    "nothing_launched": ("not applicable", "launches no kernel"),
    "compiled": ("failed", "asked the compiler itself, 1 times"),
    "broken": ("failed", "no fixture"),
    "skipped": ("not applicable", "says so itself"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tests of a toy library, which is installed there too."""
    files = {
        "toy/__init__.py": LIBRARY, "toy_seams.py": DECLARED, "conftest.py": CONFTEST, "test_toy.py": TESTS,
        "pytest.ini": "[pytest]\n", "toy-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n",
        "toy-1.0.dist-info/entry_points.txt": "[precast.libraries]\ntoy = toy_seams\n",
        "toy-1.0.dist-info/RECORD": "toy/__init__.py,,\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, path: Path, *options: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "upstream.plugin", "--attach=toy"]
    command += ["--import-mode=importlib", f"--rootdir={folder}", "-c", str(folder / "pytest.ini"), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(GPU_TESTS)])}
    done = subprocess.run(
        [*command, f"--results={path}", str(folder / "test_toy.py")],
        env=environment, cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode


@pytest.mark.slow
def test_a_test_passes_only_by_what_it_launched(folder: Path) -> None:
    paths = [folder / f"{shard}.jsonl" for shard in (1, 2)]
    for shard, path in enumerate(paths, 1):
        assert run(folder, path, "--sample=4", "--traced=2", f"--shard={shard}/2") == 1
    tests: dict[str, Any] = {line["test"].rpartition("::test_")[2]: line for line in read(paths)}
    for name, (outcome, reason) in VERDICTS.items():
        assert tests[name]["outcome"] == outcome, name
        assert reason in tests[name]["reason"], name
    assert tests["right"]["launches"] == 1
    for end, left in (("True]", 3), ("False]", 1)):
        sampled = [line["outcome"] for name, line in tests.items() if name.endswith(end)]
        assert sorted(sampled) == ["left out"] * left + ["passed"] * (5 - left)
    assert sum(line["outcome"] == "passed" for line in tests.values()) == 7


@pytest.mark.slow
def test_a_recording_goes_on_after_a_missing_kernel(folder: Path) -> None:
    recording = folder / "recording.jsonl"
    assert (
        run(folder, folder / "results.jsonl", "--mode=record", f"--recording={recording}", "-k", "missing and not over")
        == 0
    )
    assert json.loads(recording.read_text().splitlines()[0])["config"]["added"] == 10


def test_the_table_counts_a_test_once_and_keeps_its_failure(tmp_path: Path) -> None:
    line = {"test": "a::test_b", "launches": 2}
    lines = [{**line, "outcome": o, "reason": r} for o, r in (("passed", ""), ("failed", "late"), ("passed", ""))]
    (tmp_path / "results").write_text("".join(json.dumps(one) + "\n" for one in lines))
    text = render({"toy": read([tmp_path / "results"])})
    assert text.splitlines()[1].split() == ["toy", "0", "1", "0", "0", "0", "2"]
    assert "test_b: late" in text


def test_suites_have_names_of_their_own() -> None:
    assert len({suite.name for suite in SUITES}) == len(SUITES)
    assert len(Suite(library="quack", files=["test_a.py"], shards=3).processes()) == 3
