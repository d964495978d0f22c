"""Progress: what a person sees of a running command, on a terminal and in a log."""

from __future__ import annotations

import io
import sys
import time

import pytest

from precast.cli.shared.progress import Progress, waiting
from tests.helpers.terminal import Session, on_terminal

LONG = "attention(dtype=bfloat16, head_dim=128, causal=true, tile_m=128, tile_n=64, stages=2) for sm_100a"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(script: str, *, columns: int = 80, env: dict[str, str] | None = None) -> Session:
    """What a script shows that uses ``progress`` and ``sleep``."""
    head = "import sys\nfrom time import sleep\nfrom precast.cli.shared.progress import Progress\n"
    done = on_terminal([sys.executable, "-c", head + script], columns=columns, env=env)
    assert done.status == 0, done.frames[-1]
    return done


def test_the_rate_and_the_time_left_are_those_of_what_was_built() -> None:
    clock = Clock()
    progress = Progress(102, stream=io.StringIO(), clock=clock)
    for _ in range(2):
        progress.skip()
    progress.begin("a")
    progress.begin("b")
    assert progress.lines(80) == ["[2/102]", "  a", "  b"]
    clock.now = 10.0
    for _ in range(4):
        progress.step("a", "1.00 s")
    # Four in ten seconds, and 96 to go; the two that were reused do not count.
    assert progress.lines(80) == ["[6/102] 2.5 s each, 4:00 left", "  b  10 s"]
    for _ in range(96):
        progress.step("c", keep=True)
    assert progress.lines(80) == ["[102/102] 10.0/s, 96 failed", "  b  10 s"]


def test_a_stage_is_shown_with_its_seconds_until_an_item_begins() -> None:
    clock = Clock()
    progress = Progress(stream=io.StringIO(), clock=clock)
    progress.stage("reading 1 manifest")
    clock.now = 65.0
    assert progress.lines(80) == ["reading 1 manifest  1:05"]
    progress.begin("a")
    assert progress.lines(80) == ["  a"]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_each_keeps_its_ends(width: int) -> None:
    clock = Clock()
    progress = Progress(1, stream=io.StringIO(), clock=clock)
    progress.begin(LONG)
    clock.now = 3700.0
    line = progress.lines(width)[-1]
    assert len(line) <= width
    assert line.startswith("  atte") and line.endswith("  61:40")
    assert ("…" in line) == (len(LONG) + 9 > width)


def test_a_host_of_many_workers_shows_the_oldest_of_them() -> None:
    clock = Clock()
    progress = Progress(50, stream=io.StringIO(), clock=clock)
    for number in range(20):
        clock.now = float(number)
        progress.begin(f"item {number}")
    lines = progress.lines(80)
    assert lines[1] == "  item 0  19 s" and lines[-1] == "  and 12 more" and len(lines) == 10


def test_the_seconds_of_what_runs_keep_counting_while_nothing_happens() -> None:
    done = shown("with Progress(2) as p:\n    p.begin('slow')\n    sleep(2.6)")
    assert any("[0/2]\n  slow  1 s" in frame for frame in done.frames)
    assert any("[0/2]\n  slow  2 s" in frame for frame in done.frames)


def test_only_failures_stay_on_the_terminal() -> None:
    script = (
        "with Progress(3) as p:\n    p.stage('starting')\n    sleep(0.4)\n    p.begin('good')\n    sleep(0.4)\n"
        "    p.step('good', '0.1 s')\n    p.step('bad', 'failed', keep=True)\n    sleep(0.4)\n    p.step('last')"
    )
    done = shown(script)
    assert any("starting" in frame for frame in done.frames)
    assert any("  good" in frame for frame in done.frames)
    assert [line for line in done.lines if line] == ["[2/3] bad: failed"]


@pytest.mark.parametrize(("columns", "env"), [(80, {}), (120, {"COLUMNS": "50"})])
def test_on_a_narrow_terminal_no_word_is_cut(columns: int, env: dict[str, str]) -> None:
    script = f"with Progress(1) as p:\n    p.begin({LONG!r})\n    sleep(0.6)\n    p.step({LONG!r}, 'failed', keep=True)"
    done = shown(script, columns=columns, env=env)
    width = int(env.get("COLUMNS", columns))
    (live,) = {frame.splitlines()[1] for frame in done.frames if frame.startswith("[0/1]\n  ")}
    assert len(live) <= width and "…" in live
    kept = [line for line in done.lines if line]
    assert len(kept) > 1 and all(len(line) <= width for line in kept)
    assert " ".join(kept) == f"[1/1] {LONG}: failed"


def test_a_warning_appears_whole_above_the_display() -> None:
    script = (
        "with Progress(1) as p:\n    p.begin('slow')\n    sleep(0.4)\n"
        "    print('warning: far away', file=sys.stderr)\n    sleep(0.4)"
    )
    done = shown(script)
    assert any(frame.splitlines()[:3] == ["warning: far away", "[0/1]", "  slow"] for frame in done.frames)
    assert [line for line in done.lines if line] == ["warning: far away"]


@pytest.mark.parametrize(("stream", "ci"), [(io.StringIO(), ""), (Terminal(), "true")])
def test_a_log_has_whole_lines_only(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("COLUMNS", "40")
    with Progress(stream=stream) as progress:
        progress.stage("reading")
        progress.stage("reading")
        progress.total = 10
        progress.skip()
        progress.begin(LONG)
        progress.step(LONG, "0.10 s")
    assert stream.getvalue() == f"reading\n[ 2/10] {LONG}: 0.10 s\n"


def test_a_long_wait_prints_one_line_and_a_short_one_nothing() -> None:
    long, short = io.StringIO(), io.StringIO()
    with waiting("importing kernels", after=0.01, stream=long):
        while not long.getvalue():
            time.sleep(0.01)
    with waiting("importing kernels", after=60, stream=short):
        pass
    assert (long.getvalue(), short.getvalue()) == ("importing kernels ...\n", "")
