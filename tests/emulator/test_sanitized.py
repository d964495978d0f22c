"""The interpreter itself: no access out of its own memory, no undefined behaviour, while other tests run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.emulator import SANITIZED

HERE = Path(__file__).parent
FILES = (
    "test_lanes.py",
    "test_calls.py",
    "test_memory.py",
    "test_warps.py",
    "test_schedule.py",
    "test_integers.py",
    "sync",
)


@pytest.mark.slow
def test_with_sanitizers() -> None:
    """In a process that has AddressSanitizer from the start, since Python does not link it."""
    preloaded = []
    for name in ("libasan.so", "libstdc++.so"):
        command = ["g++", f"-print-file-name={name}"]
        preloaded.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    if not all(map(os.path.isabs, preloaded)):
        pytest.skip("g++ has no libasan.so")
    environment = dict(os.environ, LD_PRELOAD=":".join(preloaded), ASAN_OPTIONS="detect_leaks=0", **{SANITIZED: "1"})
    arguments = [
        *(str(HERE / name) for name in FILES if (HERE / name).exists()),
        "-q",
        "-x",
        "-s",
        "-p",
        "no:cacheprovider",
        "-k",
        "not (right_kernel and limits)",  # they wait for a whole GPU, and take longer than all others
    ]  # -s: what a sanitizer prints is seen
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert " passed" in done.stdout
