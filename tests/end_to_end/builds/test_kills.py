"""Some of the kills and stops of ``benchmarks/kills.py``, which interrupts a hundred of each kind of process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.kills.rounds import MISSING

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]


@pytest.mark.parametrize(("kind", "number"), [("any", 3), ("fetch", 1), ("push", 1), ("wheel", 1)])
def test_nothing_is_lost_and_nothing_is_left(kind: str, number: int) -> None:
    """In a process of its own, which adopts what killed ones leave running. ``PRECAST_SEED`` chooses other moments."""
    if kind in MISSING:
        pytest.skip("no OCI registry is installed: install Debian's package docker-registry")
    command = [sys.executable, "benchmarks/kills.py", kind, "--number", str(number), "--json"]
    seed = os.environ.get("PRECAST_SEED", "3")
    done = subprocess.run([*command, "--seed", seed], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["broken"] == []
    assert sum(found["signals"].values()) >= number
