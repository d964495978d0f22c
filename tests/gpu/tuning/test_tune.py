"""``precast tune`` on a GPU: an installed cache's candidates are measured, a second run has nothing to do, and the
loader chooses by what was measured."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.build.measurements.tuning_file import TuningFile, config_json
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import canonical
from precast.loader.resolve.cache import Cache
from precast.measure.launching.cases import launchable, obstacle, this_device

PROBLEMS: dict[str, list[dict[str, Any]]] = {
    # Of no layer, so that no file has them; multiples of 16, as float8 needs.
    "gemm": [{"m": [1, 61, 1021], "n,k": [[6160, 4112], [4112, 14352]]}],
    "rmsnorm": [{"rows": [1, 64, 4096]}],
    "scale": [{"n": [4096, 1 << 24]}],
}
CANDIDATES = 8  # of a group that are measured
SECONDS = 240


def group() -> tuple[Cache, str, list[Artifact]] | None:
    """The largest group of candidates of the installed caches, of the first op that has one."""
    for op in PROBLEMS:
        caches = [one.cache for one in loader.caches() if one.cache is not None and op in one.cache.index.ops]
        found = [(cache, op, members) for cache in caches for members in groups(cache, op)]
        cache, op, best = max(found, key=lambda one: len(one[2]), default=(None, op, []))
        if cache is not None and len(best) > 1:
            return cache, op, best[:CANDIDATES]
    return None


def groups(cache: Cache, op: str) -> list[list[Artifact]]:
    """The candidates for each meaning; a cubin, and an artifact of other assumptions, is no other candidate."""
    device = this_device()
    tuned = {key.name for key in cache.op(op).keys if key.tuned}
    found: dict[str, dict[bytes, Artifact]] = {}
    for _, one in launchable(cache, [op]):
        if one.kind == "object" and not obstacle(one, device):
            meaning = {name: value for name, value in one.config.items() if name not in tuned}
            found.setdefault(str([meaning, one.target]), {})[canonical(config_json(one.config))] = one
    return [list(group.values()) for group in found.values()]


def precast(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "precast.cli.main", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_candidates_are_measured_once_and_the_loader_chooses_by_them(tmp_path: Path) -> None:
    found = group()
    if found is None:
        pytest.skip("no installed cache has several candidates of gemm, rmsnorm or scale for this GPU")
    cache, op, members = found
    entry = {
        "kernel": op,
        "targets": str(members[0].target),
        "include": [config_json(one.config) for one in members],
        "problems": PROBLEMS[op],
    }
    manifest, file = tmp_path / "m.yaml", tmp_path / "t.json"
    manifest.write_text(json.dumps({"version": 1, "name": "tuned", "kernels": [entry]}))
    measure = ("tune", "measure", manifest, "--cache", cache.path, "-o", file, "--json")
    done = precast(*measure)
    print(done.stderr)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["measured"] > 0 and not [line for line in told["left_out"] if "wrong" in line], told["left_out"]
    assert told["gpu"]["sm_mhz"] > 0
    known = precast(*measure)
    assert json.loads(known.stdout)["measured"] == 0 and json.loads(known.stdout)["known"] == told["measured"]
    copy = tmp_path / "cache"
    shutil.copytree(cache.path, copy)
    assert precast("tune", "apply", copy, file).returncode == 0
    before, after = (sum(len(row.times) for row in Cache(one).op(op).tuning) for one in (cache.path, copy))
    assert after - before == told["times"], "times of other sizes are kept"
    (measured,) = TuningFile.decode(file.read_bytes()).groups
    for sizes in measured.problems:
        times = [one.times[sizes] for one in measured.candidates if sizes in one.times]
        print(dict(sizes), f"best {min(times):.2f} us, worst {max(times):.2f} us of {len(times)}")
    assert precast("tune", "prune", manifest, "--cache", cache.path, "--times", file, "--cover").returncode == 0
