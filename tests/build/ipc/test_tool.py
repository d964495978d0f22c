"""Tools that hang, are stopped or killed: each ends, with what it has started, and the error names it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from precast.build.errors import ToolError
from precast.build.ipc import tool
from precast.build.ipc.process_tree import has_ended
from precast.build.ipc.tool import run_tool
from precast.build.link.runtime import run


def test_output_and_status(tmp_path: Path) -> None:
    done = run_tool(["sh", "-c", "pwd; echo wrong >&2; exit 3"], tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == (f"{tmp_path}\n", "wrong\n", 3)


def test_its_temporary_files_are_in_its_folder(tmp_path: Path) -> None:
    """A tool that is killed leaves them: they go with the folder."""
    run_tool(["sh", "-c", "mktemp"], tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert run_tool(["sh", "-c", 'echo "$TMPDIR"']).stdout.strip() == os.environ.get("TMPDIR", "")


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^sh did not end in 1 s, and was ended"):
        run_tool(["sh", "-c", "sleep 600 & echo $! > pid; wait"], tmp_path, seconds=1)
    assert has_ended(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("script", ["kill -STOP $$", "sh -c 'kill -STOP $$'; true"], ids=["itself", "its child"])
def test_one_that_is_stopped_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(tool, "_STOPPED_SECONDS", 1.0)
    begun = time.monotonic()
    with pytest.raises(ToolError, match=r"^sh was stopped by a signal for 1 s, and was ended"):
        run_tool(["sh", "-c", script], tmp_path)
    assert time.monotonic() - begun < 20


def test_one_that_is_stopped_and_continued_is_not(tmp_path: Path) -> None:
    script = "(sleep 2; kill -CONT $$) & kill -STOP $$; echo on"
    assert run_tool(["sh", "-c", script], tmp_path).stdout == "on\n"


def test_the_error_of_a_killed_one_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^sh was ended by SIGKILL; it may have run out of memory, on a thing: build"):
        run(["sh", "-c", "kill -KILL $$"], tmp_path, "a thing")
