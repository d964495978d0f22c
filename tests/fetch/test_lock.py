"""Waiting for another process that fetches into the same folder."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.fetch.lock import locked
from precast.loader.errors import FetchError

HOLD = """
import os, sys, time, fcntl
handle = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has locked ``folder``."""
    (tmp_path / "folder").mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "folder")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.slow
def test_a_stopped_holder_is_named(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGSTOP)
    waits: list[str] = []
    begun = time.monotonic()
    with pytest.raises(FetchError, match=rf"^process {holder.pid} fetches into the same folder.*kill -CONT"):
        locked(tmp_path / "folder", lambda: waits.append("waits"))
    assert waits == ["waits"] and time.monotonic() - begun < 60


def test_a_running_holder_is_waited_for(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    handle = locked(tmp_path / "folder", holder.kill)
    with pytest.raises(BlockingIOError):
        fcntl.flock(os.open(tmp_path / "folder", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


def test_another_stopped_process_does_not_matter(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """Only the one that holds the lock."""

    def wait() -> None:
        time.sleep(0.3)
        holder.kill()

    with subprocess.Popen(["sleep", "600"], cwd=tmp_path / "folder") as other:
        other.send_signal(signal.SIGSTOP)
        os.close(locked(tmp_path / "folder", wait))
        other.kill()
