"""This project's ``gemm`` emulated: blocks that load both sides together, share k, or have two teams for tiles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.builds import kept_store, precast

pytestmark = pytest.mark.slow
HALF = {"dtype": "bfloat16", "out_dtype": "bfloat16"}
OWN = {"library": "precast", "tile": [[64, 64]], "cluster": [[2, 4]], "swap": True}
VARIANTS: list[dict[str, Any]] = [
    {"tile": [72, 64], "cluster": [2, 4]},  # one side in parts, the other in turns
    {"tile": [64, 40], "cluster": [4, 2], "swap": False},
    {"tile": [8, 64], "cluster": [1, 1], "residents": 3},
    {"tile": [48, 64], "cluster": [2, 2], "split": 2},
]
TEAMS: list[dict[str, Any]] = [
    {"tile": [40, 128], "cluster": [2, 1]},
    {"tile": [192, 72], "cluster": [1, 1], "swap": False},  # lends registers
]
Group = tuple[Mapping[str, Any], Mapping[str, Any], list[dict[str, Any]]]
"""A config, its first variant, and more of them."""
# A GPU of few SMs: a block has several tiles of a small problem.
GPU = "H200 MIG 1g.18gb"
PROBLEMS = (
    "m=150,n=520,k=200",  # more clusters than run at once, tiles that are cut short, and a step of k
    "m=72,n=264,k=1096",  # more steps than stages: a block waits until others have read what it loaded for them
)
TEAM_PROBLEMS = (
    "m=200,n=1176,k=136",  # blocks have two tiles or more: both teams of a block have some
    "m=200,n=1176,k=1032",  # and more steps than stages
)


def test_each_tile_is_computed_once_and_nothing_races(tmp_path: Path) -> None:
    emulate(tmp_path, [(HALF, OWN, VARIANTS), ({**HALF, "out_dtype": "float32"}, OWN, [])], PROBLEMS)


def test_teams_take_tiles_in_turn(tmp_path: Path) -> None:
    first = {**OWN, "tile": [[32, 64]], "cluster": [[2, 2]], "pingpong": True}
    emulate(
        tmp_path,
        [(HALF, first, TEAMS), ({**HALF, "out_dtype": "float32"}, first, []), ({**HALF, "weights": True}, first, [])],
        TEAM_PROBLEMS,
    )


def emulate(folder: Path, groups: list[Group], problems: tuple[str, ...]) -> None:
    """Build variants, and verify all of them by emulation."""
    kernels = [{"kernel": "gemm", "config": config, "tuned": first, "include": more} for config, first, more in groups]
    manifest = {"version": 1, "name": "clusters", "targets": ["sm_90a"], "kernels": kernels}
    (folder / "clusters.yaml").write_text(json.dumps(manifest))
    cache, store = folder / "cache", kept_store()
    done = precast(store, "build", folder / "clusters.yaml", "-o", cache, "-j", 1, "--profile", GPU)
    assert done.returncode == 0, done.stderr
    for problem in problems:
        done = precast(store, "verify", cache, "--emulate", "--json", "--problem", problem, "-j", 2)
        report = json.loads(done.stdout)
        assert report["smallest"] is None and not report["refused"] and not report["left_out"], report
        assert sum(len(keys) for keys in report["evidence"].values()) == sum(1 + len(more) for _, _, more in groups)
        assert done.returncode == 0
