"""``precast verify --sanitizer``: what only a tool can see is found, and what is right is not blamed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precast import loader

HERE = Path(__file__).parent
SECONDS = 200


@pytest.fixture
def cache() -> Path:
    """The installed cache of wrong.yaml, where the tool is installed too."""
    if shutil.which("compute-sanitizer") is None:
        pytest.skip("there is no compute-sanitizer on PATH: it is part of the CUDA toolkit")
    for found in loader.caches():
        if found.cache is not None and "wrong.reads" in found.cache.index.ops:
            return found.cache.path
    pytest.skip("no cache holds the wrong kernels: put one of tests/gpu/wrong.yaml in the kit")


@pytest.mark.parametrize(
    ("kind", "tool", "said"),
    [
        ("right", "memcheck", ""),
        ("right", "racecheck", ""),
        ("reads", "memcheck", "Invalid __global__ read of size 4 bytes"),
        ("race", "racecheck", "hazard"),
    ],
)
def test_a_tool_finds_what_is_wrong(cache: Path, kind: str, tool: str, said: str) -> None:
    words = ["verify", cache, "--op", f"wrong.{kind}", "--sanitizer", tool]
    path = os.pathsep.join(filter(None, [str(HERE / "wrong"), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "precast.cli.main", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == bool(said), printed
    assert said in printed and (f"{tool} reported the errors above" in printed) == bool(said)
