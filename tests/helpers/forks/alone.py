"""A test in a process of its own: what forks at each step takes twenty times as long where all tests are imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def run_alone(test: str, root: Path) -> None:
    """Run a test, named as pytest names it, and fail or skip as it does.

    Its temporary files have a folder of their own: pytest would else remove those of earlier runs, which takes minutes.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", test]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, f"--basetemp={folder}/alone"],
            cwd=root, env={**os.environ, "TESTS_ALONE": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if skipped := re.search(r"^SKIPPED \[1\] \S+ (.*)$", done.stdout, re.MULTILINE):
        pytest.skip(skipped[1])
    if done.returncode or "1 passed" not in done.stdout:
        pytest.fail(f"{done.stdout}{done.stderr}", pytrace=False)
