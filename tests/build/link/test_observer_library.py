"""The observer's library: compiled once, for each processor; calls behave as before; builds without it report that."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from precast.build.link.observer_library import compile_observer, find_observer
from tests.helpers.builds import manifest, module, precast
from tests.helpers.native.libprecast import SANITIZERS

GCC, QEMU, SYSTEM = "aarch64-linux-gnu-gcc", "qemu-aarch64-static", Path("/usr/aarch64-linux-gnu")
CALLS = Path(__file__).parents[2] / "helpers" / "native" / "observed_calls.c"


def test_it_is_compiled_once(tmp_path: Path) -> None:
    path = find_observer(tmp_path).path
    assert path is not None
    before = path.stat()
    find_observer.cache_clear()
    assert find_observer(tmp_path).path == path
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.slow
def test_a_damaged_one_is_compiled_again(tmp_path: Path) -> None:
    path = find_observer(tmp_path).path
    assert path is not None
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[:4096])
    find_observer.cache_clear()
    assert find_observer(tmp_path).path == path and path.stat().st_size == whole


def test_a_folder_whose_name_separates_libraries_is_refused(tmp_path: Path) -> None:
    assert "has a colon or a space" in find_observer(tmp_path / "a b").reason


def test_no_folder_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "Not a directory" in find_observer(tmp_path / "file" / "folder").reason


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_calls_behave_as_before(processor: str, tmp_path: Path) -> None:
    """A program makes each kind of call, and checks the results; the library checks its own memory."""
    if processor == "aarch64":
        if missing := [name for name in (GCC, QEMU) if shutil.which(name) is None]:
            pytest.skip(f"{', '.join(missing)} missing: apt-get install gcc-aarch64-linux-gnu qemu-user-static")
        compile_observer(tmp_path / "observer.so", compiler=GCC)
        run = [QEMU, "-L", str(SYSTEM), "-E", f"LD_PRELOAD={tmp_path / 'observer.so'}"]
        compiler, flags = GCC, ("-O1", "-g")
    else:
        compile_observer(tmp_path / "observer.so", SANITIZERS)
        found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        libraries = f"{found.stdout.strip()}:{tmp_path / 'observer.so'}"  # the sanitizer must come first
        run = ["env", "ASAN_OPTIONS=detect_leaks=0", f"LD_PRELOAD={libraries}"]
        compiler, flags = "gcc", ("-O1", "-g")
    subprocess.run([compiler, *flags, CALLS, "-o", tmp_path / "calls", "-ldl"], check=True)
    done = subprocess.run([*run, tmp_path / "calls", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    events = done.stdout.splitlines()
    for expected in EVENTS:
        assert f"{expected[0]} {tmp_path}/{expected[1:]}" in events, (expected, events)


EVENTS = (
    "oabsent",
    "mmade",
    "o./made",
    "ofolder/../made",
    "smade",
    "aabsent",
    "dfolder",
    "mfolder",
    "umade2",
    "lmade",
    "ufolder",
)


@pytest.mark.slow
def test_a_build_without_it_reports_that_once(tmp_path: Path) -> None:
    module(tmp_path / "src", "one", "def one_made(n: int):\n    return compile_add(n)\n")
    made = manifest(tmp_path / "src", {"one:one_made": [1, 2]})
    done = precast(tmp_path / "store", "build", made, "-o", tmp_path / "cache", XDG_CACHE_HOME="/proc/nowhere")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning: reads by native code and other programs are not observed") == 1
    done = precast(tmp_path / "store", "build", made, "-o", tmp_path / "cache", XDG_CACHE_HOME="/proc/nowhere")
    assert "not observed" not in done.stderr
