"""What is half-written belongs to a living build, or to nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from precast.build.disk.scratch import scratch_file, scratch_folder, sweep, write_atomically
from precast.build.errors import StoreError

HOLD = """
import sys
from pathlib import Path
from precast.build.disk.scratch import scratch_file, scratch_folder
with scratch_folder(Path(sys.argv[1]), ".x-") as folder, scratch_file(Path(sys.argv[1]), ".x-") as file:
    (folder / "half").write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_living_process_keeps_its_own_and_a_killed_one_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "innocent").write_text("x")
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
        assert one.stdout is not None and one.stdout.readline() == b"ready\n"
        assert sweep(tmp_path, ".x-") == 0
        assert len(list(tmp_path.iterdir())) == 3
        os.kill(one.pid, signal.SIGKILL)
        one.wait()
        assert len(list(tmp_path.iterdir())) == 3
        assert sweep(tmp_path, ".x-") == 2
    assert [p.name for p in tmp_path.iterdir()] == ["innocent"]


def test_scratch_ends_with_its_block(tmp_path: Path) -> None:
    with scratch_folder(tmp_path, ".x-") as folder, scratch_file(tmp_path, ".x-") as file:
        assert folder.is_dir() and file.is_file()
        os.rename(file, tmp_path / "kept")
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_one_that_was_swept_before_it_was_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    real = fcntl.flock
    calls: list[int] = []

    def flock(handle: int, how: int) -> None:
        if not calls:
            calls.append(1)
            for path in tmp_path.iterdir():
                path.rmdir()
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with scratch_folder(tmp_path, ".x-") as folder:
        assert folder.is_dir()


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StoreError, match=r"cannot write .*/a: No space left on device; make room"):
        write_atomically(tmp_path / "a", b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]
