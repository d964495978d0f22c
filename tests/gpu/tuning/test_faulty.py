"""A candidate that faults, hangs, refuses or is wrong costs itself alone, in ``verify``, ``bench`` and ``tune``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.build.measurements.tuning_file import TuningFile
from precast.loader import session
from precast.loader.machine.driver import Device, NoDriver

HERE = Path(__file__).parent
TIMEOUT = 20  # seconds: far less than the one that hangs takes, far more than a process needs to start
SECONDS = 200


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A copy of the installed cache of faulty.yaml."""
    try:
        device: Device = session.default.machines.driver.find()
    except NoDriver as reason:
        pytest.skip(f"no CUDA device: {reason}")
    for found in loader.caches():
        if found.cache is not None and "faulty" in found.cache.index.ops and device:
            return Path(shutil.copytree(found.cache.path, tmp_path / "cache"))
    pytest.skip("no cache holds the faulty kernels: put one of tests/gpu/tuning/faulty.yaml in the kit")


def precast(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "precast.cli.main", *map(str, words), "--timeout", str(TIMEOUT)]
    path = os.pathsep.join(filter(None, [str(HERE / "faulty"), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
    print(done.stdout[-3000:], done.stderr[-3000:])
    return done


def keys(cache: Path) -> dict[str, Any]:
    """The kinds by the keys of their artifacts."""
    rows = json.loads((cache / "ops" / "faulty.json").read_bytes())["artifacts"]
    return {row["key"]: row["config"]["kind"] for row in rows}


def test_tune(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    done = precast("tune", "measure", HERE / "faulty.yaml", "--cache", cache, "-o", file, "--json")
    assert done.returncode == 0, done.stderr
    (group,) = TuningFile.decode(file.read_bytes()).groups
    measured = {str(one.tuned["kind"]): {dict(sizes)["n"] for sizes in one.times} for one in group.candidates}
    assert measured == {"right": {1000, 4096}, "last": {1000, 4096}, "refuse": {4096}}
    told = "\n".join(json.loads(done.stdout)["left_out"])
    assert {kind for kind in ("fault", "hang", "refuse", "wrong") if f"kind: {kind}" in told} == {
        "fault", "hang", "refuse", "wrong",
    }  # fmt: skip


def test_bench(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    done = precast("bench", cache, "--op", "faulty", "-o", file, "--rounds", 1)
    assert done.returncode == 0, done.stderr
    times: dict[int, set[str]] = {}
    known = keys(cache)
    for row in json.loads(file.read_bytes())["ops"]["faulty"]:
        times[row["problem"]["n"]] = {known[key] for key in row["times"]}
    assert times == {1000: {"right", "last", "wrong"}, 4096: {"right", "last", "wrong", "refuse"}}


def test_verify(cache: Path) -> None:
    done = precast("verify", cache, "--op", "faulty", "--json")
    assert done.returncode == 1
    told, known = json.loads(done.stdout), keys(cache)
    blamed = {known[key] for key, entry in told["evidence"]["faulty"].items() if entry["failed"]}
    assert blamed == {"fault", "hang", "refuse", "wrong"}, "one that refuses a size that its author declares is wrong"
    assert known[told["smallest"]["key"]] in blamed and "precast verify " in told["smallest"]["repeat"]
