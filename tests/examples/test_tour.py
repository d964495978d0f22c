"""The notebook of examples/ runs from its first cell to its last, and shows what it showed when it was kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.gpu.device import no_device
from tests.helpers.notebook.runner import steady
from tests.helpers.source_tree import ROOT

TOUR = ROOT / "examples" / "tour.ipynb"
MOST = 60_000
"""Bytes of a notebook that one can read as a difference."""


def cells() -> list[Any]:
    found: list[Any] = json.loads(TOUR.read_text())["cells"]
    return found


def data(kind: str) -> list[str]:
    """What the cells show, of one kind."""
    outputs = [output for cell in cells() for output in cell.get("outputs", [])]
    return ["".join(output["data"][kind]) for output in outputs if kind in output.get("data", {})]


@pytest.mark.slow
@pytest.mark.skipif(not no_device(), reason="there is a GPU, where the notebook launches; it shows a machine without")
def test_it_runs_and_shows_what_is_kept(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PRECAST_STORE": str(tmp_path), "TMPDIR": str(tmp_path)}
    for name in ("PRECAST_CACHE_PATH", "PRECAST_LOG", "COLUMNS"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "tests.helpers.notebook.runner", "--check", str(TOUR)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "shows what it did" in done.stdout
    assert not list(tmp_path.glob("precast-tour-*")), "it removes what it built"


def test_it_is_small_and_has_nothing_of_a_machine() -> None:
    notebook = json.loads(TOUR.read_text())
    assert TOUR.stat().st_size < MOST
    assert set(notebook["metadata"]) == {"kernelspec"}
    assert not [cell["metadata"] for cell in cells() if cell["metadata"]]
    assert str(ROOT) not in TOUR.read_text() and str(Path.home()) + "/" not in TOUR.read_text()
    counts = [cell["execution_count"] for cell in cells() if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run from the first cell to the last"


def test_it_shows_what_the_loader_has() -> None:
    texts = [
        *data("text/plain"),
        *("".join(o["text"]) for cell in cells() for o in cell.get("outputs", []) if "text" in o),
    ]
    for words in ("1 op", "<Candidate mine.add", "taken", "to build it, put this", "<Kernel mine.add", "lookups="):
        assert any(words in text for text in texts), words


def test_no_cell_ended_in_an_error() -> None:
    assert not [o for cell in cells() for o in cell.get("outputs", []) if o["output_type"] == "error"]


def test_a_change_of_what_is_shown_is_a_difference() -> None:
    """Only what differs from machine to machine is none."""
    assert steady("taken sm_90a e6ecd40d1391 in 1.25 ms") == steady("taken sm_90a 0ec58bf91c9d in 99.1 ms")
    assert steady("taken sm_90a") != steady("taken sm_100a")
    assert steady("8 variants built, 0 reused") != steady("7 variants built, 1 reused")
    assert steady("10 registers") != steady("12 registers")
