"""A build as a person sees it on a terminal of 80 columns, and as a log keeps it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.helpers.builds import manifest, precast
from tests.helpers.terminal import Session, on_terminal

pytestmark = pytest.mark.usefixtures("without_torch")

KERNELS = """
import time

def slow(n: int, a_key_with_a_long_name: int = 123456789, another_with_a_long_name: int = 987654321):
    time.sleep(2.5)
    raise ValueError(f"the tile of {n} does not fit")
"""


def on_80_columns(tmp_path: Path, *, interrupt_at: str = "") -> Session:
    (tmp_path / "kernels80.py").write_text(KERNELS)
    mine = manifest(tmp_path, {"kernels80:slow": [1, 2]})
    words = [sys.executable, "-m", "precast.cli.main", "build", mine, "-o", tmp_path / "cache", "-j", "1"]
    return on_terminal(words, env={"PRECAST_STORE": str(tmp_path / "store")}, interrupt_at=interrupt_at)


@pytest.mark.slow
def test_a_terminal_shows_each_stage_and_the_seconds_of_a_long_variant(tmp_path: Path) -> None:
    done = on_80_columns(tmp_path)
    assert done.status == 1
    stages = ("reading 1 manifest and importing its kernels", "looking up 2 variants in the store", "[0/2]\n  ")
    first = [next(i for i, frame in enumerate(done.frames) if stage in frame) for stage in stages]
    assert first == sorted(first)
    running = {line for frame in done.frames for line in frame.splitlines() if line.startswith("  user")}
    assert {re.sub(".*sm_90a", "", line).strip() for line in running} >= {"", "1 s", "2 s"}
    assert all("…" in line and len(line) <= 80 for line in running)
    text = " ".join(done.frames[-1].split())
    assert "[1/2] user.slow(a_key_with_a_long_name=123456789, another_with_a_long_name=9876..., n=1, #" in text
    assert text.count("error: ") == 1 and "and 1 more variant for the same reason: --verbose lists them" in text
    assert text.endswith("0 variants built, 0 reused, 2 failed: nothing was written")


@pytest.mark.slow
def test_ctrl_c_clears_the_display_and_says_what_is_kept(tmp_path: Path) -> None:
    done = on_80_columns(tmp_path, interrupt_at="[0/2]")
    assert done.status == 130
    said = " ".join(done.frames[-1].split())
    assert said.endswith(
        "interrupted: the store keeps what was built, and the cache is unchanged; build again to continue"
    )
    assert "[0/2]" not in said and "Traceback" not in said


@pytest.mark.slow
def test_a_log_has_the_stages_as_lines_and_json_has_none(tmp_path: Path) -> None:
    (tmp_path / "kernels80.py").write_text("def bad(n: int):\n    raise ValueError('no')\n")
    mine = manifest(tmp_path, {"kernels80:bad": [1]})
    words = ["build", mine, "-o", tmp_path / "cache", "-j", 1]
    lines = precast(tmp_path / "store", *words).stderr.splitlines()
    assert lines[:3] == [
        "reading 1 manifest and importing its kernels",
        "looking up 1 variant in the store and starting workers",
        "[1/1] user.bad(n=1) for sm_90a: failed",
    ]
    assert precast(tmp_path / "store", *words, "--json").stderr.splitlines()[1].startswith("error: ")


@pytest.mark.slow
def test_a_plan_shows_what_takes_the_time(tmp_path: Path) -> None:
    """Importing kernels takes seconds, as here."""
    (tmp_path / "kernels80.py").write_text(f"{KERNELS}\ntime.sleep(1.5)\n")
    words = [sys.executable, "-m", "precast.cli.main", "plan", manifest(tmp_path, {"kernels80:slow": [1, 2]})]
    done = on_terminal(words, env={"PRECAST_STORE": str(tmp_path / "store")})
    assert done.status == 0
    assert done.lines[0] == "reading 1 manifest and importing its kernels ..."
    assert done.lines[-1] == "mine: 2 variants, 0 skipped"
