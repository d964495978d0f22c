"""A variant sees nothing of another one, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.helpers.builds import command, environment, events, manifest, module, new_store, precast, tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]


@pytest.fixture(autouse=True)
def stores(tmp_path: Path) -> None:
    for name in ("a", "b0", "b1", "store"):
        new_store(tmp_path / name)


SHARED = "def number():\n    return 100\n"
# One changes what the other uses: when it is imported, when it is called, and in a class.
CHANGING = """
import shared

shared.number = lambda: 5


def change(n: int):
    shared.number = lambda: 6
    compile_add.__defaults__ = (7,)
    return compile_add(n)
"""
USING = """
import shared


def use(n: int):
    return compile_add(shared.number() + n)
"""


def test_what_a_module_or_a_variant_changes_reaches_no_other(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(SHARED)
    module(tmp_path, "changing", CHANGING)
    module(tmp_path, "using", USING)
    alone = precast(tmp_path / "a", "build", manifest(tmp_path, {"using:use": [1]}), "-o", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    kernels = {"changing:change": [1], "using:use": [1]}
    blobs = {name: data for name, data in tree(tmp_path / "alone").items() if name.startswith("blobs/")}
    for number, order in enumerate([kernels, dict(reversed(kernels.items()))]):
        mine, cache = manifest(tmp_path, order), tmp_path / f"both{number}"
        done = precast(tmp_path / f"b{number}", "build", mine, "-o", cache, "-j", 1)
        assert done.returncode == 0, done.stderr
        assert blobs.items() <= tree(cache).items()


LEAVING = """
import tempfile
from pathlib import Path


def leave(n: int):
    seen = 0
    for folder in FOLDERS:
        file = Path(folder) / "left"
        seen += file.exists()
        file.write_text("seen")
    return compile_add(10 * seen + n)
"""


@pytest.mark.parametrize(
    ("by", "folders"),
    [
        ("namespaces", "(tempfile.gettempdir(), Path.home(), '/dev/shm', '/', Path(__file__).parent)"),
        ("landlock", "(tempfile.gettempdir(), Path.home())"),
    ],
)
def test_what_a_variant_writes_reaches_no_other(by: str, folders: str, tmp_path: Path) -> None:
    module(tmp_path, "leaving", LEAVING.replace("FOLDERS", folders))
    trees = []
    for name, values in (("a", [2]), ("b0", [1, 2])):
        mine, cache = manifest(tmp_path, {"leaving:leave": values}), tmp_path / f"{name}-cache"
        done = precast(tmp_path / name, "build", mine, "-o", cache, "-j", 1, PRECAST_CLOSED_BY=by)
        assert done.returncode == 0, done.stderr
        trees.append({n: data for n, data in tree(cache).items() if n.startswith("blobs/")})
    assert trees[0].items() <= trees[1].items()


SLEEP = "{programs: sleep}"
STARTING = """
import os, subprocess, time


def copied(n: int):
    '''The function returns twice, in two processes.'''
    os.fork()
    return compile_add(n)


def outliving(n: int):
    subprocess.Popen(["sleep", "MARK"], start_new_session=True)
    return compile_add(n)


def waiting(n: int):
    subprocess.Popen(["sleep", "MARK"], start_new_session=True)
    time.sleep(600)
"""


def sleepers(mark: str) -> list[int]:
    """The processes ``sleep MARK``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == f"sleep\0{mark}\0".encode():
                found.append(int(path.parent.name))
    return found


def gone(mark: str, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while sleepers(mark) and time.monotonic() < end:
        time.sleep(0.05)
    return not sleepers(mark)


def test_what_a_variant_starts_ends_with_it_and_answers_nothing(tmp_path: Path) -> None:
    mark = "987651"
    module(tmp_path, "starting", STARTING.replace("MARK", mark))
    mine = manifest(tmp_path, {"starting:copied": [1], "starting:outliving": [1]}, inputs=SLEEP)
    done = precast(tmp_path / "store", "build", mine, "-o", tmp_path / "cache", "-j", 1, "--json")
    assert done.returncode == 0, done.stderr
    assert events(done)[-1]["built"] == 2
    assert not sleepers(mark)


NOT_CLOSED = {"PRECAST_CLOSED_BY": "none"}  # so that the test sees what a process writes


@pytest.mark.parametrize("by", [{}, NOT_CLOSED], ids=["closed", "not closed"])
def test_a_build_that_is_killed_leaves_no_process_and_no_file_that_the_next_one_does_not_remove(
    tmp_path: Path, by: dict[str, str]
) -> None:
    mark, scratch = "987652", tmp_path / "tmp"
    scratch.mkdir()
    module(tmp_path, "starting", STARTING.replace("MARK", mark))
    place = environment(tmp_path / "store", TMPDIR=str(scratch), **by)
    mine = manifest(tmp_path, {"starting:copied": [1], "starting:waiting": [1]}, inputs=SLEEP)
    build = subprocess.Popen(
        command("build", mine, "-o", tmp_path / "cache", "-j", 1), env=place, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while not sleepers(mark) and time.monotonic() < end:
            time.sleep(0.05)
        assert sleepers(mark)
    finally:
        os.kill(build.pid, signal.SIGKILL)
        build.wait()
    assert gone(mark)
    (scratch / "precast-scratch-of-one-killed").mkdir()
    mine = manifest(tmp_path, {"starting:copied": [100]})
    done = precast(tmp_path / "store", "build", mine, "-o", tmp_path / "cache", TMPDIR=str(scratch), **by)
    assert done.returncode == 0, done.stderr
    assert not [path.name for path in scratch.iterdir() if path.name.startswith("precast")]


IMPORTING = """
from precast.kernels import kernel


@kernel(op="user.importing", imports=[IMPORTS])
def importing(n: int):
    FIRST
    import acme
    return compile_add(acme.NUMBER + n)
"""


@pytest.mark.parametrize(("imports", "first", "times"), [("'acme'", "n = n", 1), ("", "", 1), ("", "n = n", 2)])
def test_a_library_that_a_kernel_imports_is_imported_once(tmp_path: Path, imports: str, first: str, times: int) -> None:
    """Once where the kernel lists it, or imports it before it does anything else; else by each variant itself.

    Once more in the process that compiles one of the variants again.
    """
    site, count = tmp_path / "site-packages", tmp_path / "count"
    site.mkdir()
    (site / "acme.py").write_text(
        f"NUMBER = 3\nwith open({str(count)!r}, 'a') as file:\n    file.write('imported\\n')\n"
    )
    module(
        tmp_path,
        "importing",
        IMPORTING.replace("IMPORTS", imports).replace("    FIRST\n", f"    {first}\n" * bool(first)),
    )
    mine, path = manifest(tmp_path, {"importing:importing": [1, 2]}), os.environ["PYTHONPATH"]
    arguments = ("build", mine, "-o", tmp_path / "cache", "-j", 1)
    done = precast(tmp_path / "store", *arguments, PYTHONPATH=f"{site}{os.pathsep}{path}", **NOT_CLOSED)
    assert done.returncode == 0, done.stderr
    assert count.read_text().count("imported") == times + 1
