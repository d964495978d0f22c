"""This project's ``gemm`` emulated: blocks that load both sides together, take several tiles, or share k."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.builds import precast

HALF = {"dtype": "bfloat16", "out_dtype": "bfloat16"}
OWN = {"library": "precast", "tile": [[64, 64]], "cluster": [[2, 4]], "swap": True}
VARIANTS: list[dict[str, Any]] = [
    {"tile": [40, 64], "cluster": [1, 2]},  # in turns
    {"tile": [72, 64], "cluster": [2, 4]},  # one side in parts, the other in turns
    {"tile": [64, 48], "cluster": [2, 2], "swap": False},
    {"tile": [64, 40], "cluster": [4, 2], "swap": False},
    {"tile": [8, 64], "cluster": [1, 1], "residents": 3},
    {"tile": [48, 64], "cluster": [2, 2], "split": 2},
]
PROBLEMS = (
    "m=310,n=1608,k=200",  # more clusters than run at once, tiles that are cut short, and a step of k
    "m=144,n=304,k=1480",  # more steps than stages: a block waits until others have read what it loaded for them
)


@pytest.mark.slow
def test_each_tile_is_computed_once_and_nothing_races(tmp_path: Path) -> None:
    kernels = [
        {"kernel": "gemm", "config": HALF, "tuned": OWN, "include": VARIANTS},
        {"kernel": "gemm", "config": {**HALF, "out_dtype": "float32"}, "tuned": OWN},
    ]
    manifest = {"version": 1, "name": "clusters", "targets": ["sm_90a"], "kernels": kernels}
    (tmp_path / "clusters.yaml").write_text(json.dumps(manifest))
    cache, store = tmp_path / "cache", tmp_path / "store"
    done = precast(store, "build", tmp_path / "clusters.yaml", "-o", cache)
    assert done.returncode == 0, done.stderr
    for problem in PROBLEMS:
        done = precast(store, "verify", cache, "--emulate", "--json", "--problem", problem, "-j", 2)
        report = json.loads(done.stdout)
        assert report["smallest"] is None and not report["refused"] and not report["left_out"], report
        assert sum(len(keys) for keys in report["evidence"].values()) == len(VARIANTS) + 2
        assert done.returncode == 0
