"""A test in a process of its own: what forks at each step takes twenty times as long where all tests are imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def run_alone(test: str, root: Path) -> None:
    """Run a test, named as pytest names it, and fail or skip as it does."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", test]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "TESTS_ALONE": "1"}, capture_output=True, text=True, check=False
    )
    if skipped := re.search(r"^SKIPPED \[1\] \S+ (.*)$", done.stdout, re.MULTILINE):
        pytest.skip(skipped[1])
    if done.returncode or "1 passed" not in done.stdout:
        pytest.fail(f"{done.stdout}{done.stderr}", pytrace=False)
