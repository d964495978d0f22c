"""Temporary files are those of running builds, and a file is replaced whole or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from precast.build.disk.scratch import (
    WRITING,
    TemporaryLost,
    scratch_file,
    scratch_folder,
    sweep,
    temporary_folder,
    write_atomically,
)
from precast.build.errors import StoreError
from tests.helpers.fault_points import FINISHED, REFUSED, Fault, run, stopped, stopped_writing

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
    with pytest.raises(StoreError, match=r"cannot write .*/a: No space left on device; free disk space"):
        write_atomically(tmp_path / "a", b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("old", [b"old", None], ids=["replaced", "new"])
@pytest.mark.parametrize("fault", ["kill", "error"])
def test_a_fault_at_any_step_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, fault: Fault, old: bytes | None
) -> None:
    """Making, locking, opening, writing, flushing and renaming the temporary file are steps, before and after each."""
    path, new = tmp_path / "store" / "ab" / "file", b"new" * 1000
    ended, states = 1, []
    for step in range(1, 100):
        path.parent.mkdir(parents=True, exist_ok=True)
        if old is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, old)
        ended = stopped(lambda: write_atomically(path, new), path.parent, step, fault)
        found = path.read_bytes() if path.exists() else None
        states.append("new" if found == new else "old")
        assert found in (old, new), f"step {step}"
        assert fault == "kill" or (found == new) == (ended == FINISHED), f"step {step}"
        sweep(path.parent, WRITING)
        assert {p.name for p in path.parent.iterdir()} <= {"file"}, f"step {step}"
        if ended == FINISHED and (fault == "kill" or states[-2:] == ["new", "new"]):
            break
    assert ended == FINISHED and "old" in states and len(states) >= 5, states
    for size in (0, 1, len(new) - 1):
        assert stopped_writing(lambda: write_atomically(path, new + b"x"), size, fault) in (-signal.SIGXFSZ, REFUSED)
        assert path.read_bytes() == new, "a file that was written in part is not seen"
    assert run(lambda: write_atomically(path, old or b"")) == FINISHED


def test_a_temporary_folder_that_is_emptied_is_named_as_the_cause() -> None:
    with pytest.raises(TemporaryLost, match="was removed while it was used"), temporary_folder() as folder:
        shutil.rmtree(folder)
        (folder / "made").write_text("x")
    with pytest.raises(TemporaryLost), temporary_folder() as folder:
        (folder / "tool's").read_text()  # emptied, and the folder itself is next
    with pytest.raises(TemporaryLost), temporary_folder() as folder:
        shutil.rmtree(folder)
        raise ValueError("what a tool says")


def test_a_copy_of_the_process_leaves_the_folder_to_it(tmp_path: Path) -> None:
    """A kernel's function may fork, and then returns in two processes."""
    with scratch_folder(tmp_path, ".x-") as folder:
        copy = os.fork()
        if copy:
            os.waitpid(copy, 0)
            assert folder.exists()
    if not copy:
        os._exit(0)
    assert not folder.exists()


def test_other_errors_in_a_temporary_folder_are_their_own() -> None:
    for error in (ValueError("x"), FileNotFoundError(2, "no such tool", "gcc")):
        with pytest.raises(type(error), match=r"x|gcc"), temporary_folder():
            raise error
