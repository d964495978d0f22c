"""Builds of the tests run in forked processes: they make what processes make that are started as usual."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.helpers.builds import command, environment, manifest, module, precast, tree


@pytest.mark.slow
@pytest.mark.usefixtures("without_torch")
def test_a_forked_build_is_that_of_started_processes(tmp_path: Path) -> None:
    """To the last byte of the cache, with the inputs that each variant read, and in what it prints and returns."""
    module(tmp_path, "mine", "import os\n\n\ndef one(n: int):\n    os.environ.get('TILE')\n    return compile_add(n)\n")
    mine, cache = manifest(tmp_path, {"mine:one": [1]}), tmp_path / "cache"
    words = ("build", mine, "-o", cache, "-j", 1)
    started = subprocess.run(
        command(*words), env=environment(tmp_path / "store"), capture_output=True, text=True, check=False
    )
    assert started.returncode == 0, started.stderr
    expected = tree(cache)
    cache.rename(tmp_path / "before")
    forked = precast(tmp_path / "another", *words)
    assert forked.returncode == 0, forked.stderr
    assert tree(cache) == expected
    assert forked.stdout.splitlines()[-1] == started.stdout.splitlines()[-1]
    mine.write_text("version: 1\n")
    wrong = precast(tmp_path / "store", "build", mine, "-o", cache)
    assert (wrong.returncode, wrong.stdout) == (2, "") and "mine.yaml" in wrong.stderr
