"""Builds in a closed world: what a kernel's author sees of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.builds import events, manifest, module, new_store, precast, tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

KERNELS = {
    "reading": "import pathlib\ndef reading(n: int):\n"
    "    return compile_add(int((pathlib.Path(__file__).parent / 'tile.txt').read_text()) + n)\n",
    "computed": "import importlib\ndef computed(n: int):\n"
    "    return compile_add(importlib.import_module('til' + 'es').SIZE + n)\n",
    "variable": "import os\ndef variable(n: int):\n    return compile_add(int(os.environ['ACME_TILE']) + n)\n",
    "starting": "import subprocess\ndef starting(n: int):\n"
    "    return compile_add(len(subprocess.check_output(['git', '--version'])) + n)\n",
    "supporting": "import pathlib\nfrom precast.kernels import kernel\n"
    "MOST = int((pathlib.Path(__file__).parent / 'most.txt').read_text())\n"
    "@kernel(op='user.supporting')\ndef supporting(n: int):\n    return compile_add(n)\n",
}
DECLARED = "{files: [tile.txt, tiles.py, most.txt], variables: ACME_TILE, programs: git}"  # for all kernels


@pytest.fixture(autouse=True)
def stores(tmp_path: Path) -> None:
    for name in ("store", "again", "other"):
        new_store(tmp_path / name)


def write(folder: Path, *names: str) -> dict[str, list[int]]:
    for name in names:
        module(folder, name, KERNELS[name])
    for file, text in (("tile.txt", "3"), ("tiles.py", "SIZE = 3\n"), ("most.txt", "8")):
        (folder / file).write_text(text)
    return {f"{name}:{name}": [1] for name in names}


def test_each_refusal_names_the_line_and_the_declaration(tmp_path: Path) -> None:
    source = tmp_path / "src"
    kernels = write(source, "reading", "computed", "variable", "starting")
    done = precast(tmp_path / "store", "build", manifest(source, kernels), "-o", tmp_path / "cache", ACME_TILE="4")
    assert done.returncode == 1
    for text in (
        f"reading.py:4 reads {source}/tile.txt, which is not declared: add 'inputs: {{files: [{source}/tile.txt]}}'",
        "the module tiles is imported by a computed name, which is not declared: "
        f"add 'inputs: {{files: [{source}/tiles.py]}}'",
        "variable.py:4 reads the variable ACME_TILE, which is not declared: add 'inputs: {variables: [ACME_TILE]}'",
        "starting.py:4 starts git, which is not declared: add 'inputs: {programs: [git]}'",
    ):
        assert text in done.stderr, done.stderr
    done = precast(tmp_path / "store", "plan", manifest(source, write(source, "supporting")))
    assert done.returncode == 2 and f"supporting.py:4 reads {source}/most.txt" in done.stderr


def test_what_is_declared_is_built_and_the_cache_says_by_what_it_was_closed(tmp_path: Path) -> None:
    source = tmp_path / "src"
    made = manifest(source, write(source, *KERNELS), inputs=DECLARED)
    words = ("build", made, "-o")
    done = precast(tmp_path / "store", *words, tmp_path / "cache", ACME_TILE="4")
    assert done.returncode == 0, done.stderr
    by = done.stdout.rstrip().rpartition(", closed by ")[2]
    assert by in ("namespaces", "landlock", "none")
    shown = json.loads(precast(tmp_path / "store", "show", tmp_path / "cache", "user.reading", "--json").stdout)
    assert shown[0]["provenance"]["closed"] == by
    done = precast(tmp_path / "again", *words, tmp_path / "locked", ACME_TILE="4", PRECAST_CLOSED_BY="landlock")
    assert done.returncode == 0, done.stderr
    blobs = [{name for name in tree(tmp_path / cache) if "blobs" in name} for cache in ("cache", "locked")]
    assert blobs[0] == blobs[1]
    for change, ops in (("5", {f"user.{name}" for name in KERNELS}), ("4", set())):
        done = precast(tmp_path / "store", "plan", made, "--explain", "--json", ACME_TILE=change)
        assert {row["op"] for row in json.loads(done.stdout)["variants"] if not row["reused"]} == ops
    (source / "tile.txt").write_text("5")
    assert precast(tmp_path / "store", "check", made, tmp_path / "cache", ACME_TILE="4").returncode == 1


def test_a_kernel_that_differs_from_itself_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "src"
    module(source, "timed", "import time\nAT = time.time()\ndef timed(n: int):\n    return compile_add(AT + n)\n")
    made = manifest(source, {"timed:timed": [1, 2]})
    done = precast(tmp_path / "store", "build", made, "-o", tmp_path / "cache", "--json")
    assert done.returncode == 1
    (failed,) = events(done)[-1]["failed"]
    assert failed["code"] == "PCB27" and "was compiled twice, and the objects differ" in failed["reason"]
    done = precast(tmp_path / "other", "build", made, "-o", tmp_path / "cache", "--json", "--twice")
    assert len(events(done)[-1]["failed"]) == 2
