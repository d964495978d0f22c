"""Modules that do harm to what is around them: their own variants fail, and those of their neighbours are built."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.loader.resolve.cache import Cache
from tests.helpers.builds import events, manifest, module, precast

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

GOOD = """
def good(n: int):
    return compile_add(n)
"""
# It empties the folder of temporary files, of which the build uses some.
EMPTYING = """
import os, pathlib, shutil, tempfile


def empty():
    for path in pathlib.Path(tempfile.gettempdir()).iterdir():
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


empty()


def emptying(n: int):
    empty()
    return compile_add(n)
"""
CLOSING = """
import os

os.closerange(3, 1 << 16)


def closing(n: int):
    return compile_add(n)
"""
# As many files as take the next descriptors beyond what select() serves.
OPENING = """
import os, resource

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
FILES = [open(os.devnull) for _ in range(1100)]


def opening(n: int):
    return compile_add(n)
"""
# It stops the process that has started it, and that one's.
STOPPING = """
import os, signal
from pathlib import Path


def stopping(n: int):
    parent = os.getppid()
    worker = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(worker, signal.SIGSTOP)
    os.kill(parent, signal.SIGSTOP)
    return compile_add(n)
"""

# It stops its own process: its worker and its neighbours stay.
PAUSING = """
import os, signal


def pausing(n: int):
    os.kill(os.getpid(), signal.SIGSTOP)
    return compile_add(n)
"""


@pytest.mark.parametrize(
    ("name", "text", "built"),
    [
        ("emptying", EMPTYING, None),
        ("closing", CLOSING, 2),
        ("opening", OPENING, 3),
        ("stopping", STOPPING, 2),
        ("pausing", PAUSING, 2),
    ],
)
def test_a_module_that_does_harm_costs_its_own_variants(
    tmp_path: Path, name: str, text: str, built: int | None
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    module(tmp_path, name, text)
    module(tmp_path, "fine", GOOD)
    mine = manifest(tmp_path, {f"{name}:{name}": [1], "fine:good": [1, 2]})
    words = ("build", mine, "-o", tmp_path / "cache", "-j", 2, "--json", "--timeout", 10)
    done = precast(tmp_path / "store", *words, TMPDIR=str(scratch))
    last = events(done)[-1]
    assert (tmp_path / "cache" / "index.json").exists(), done.stderr
    assert len(Cache(tmp_path / "cache").op("user.good").artifacts) == 2
    assert built is None or last["built"] == built
    if name == "pausing":
        reason = "it was stopped by a signal for 5 s; the worker was ended"
        assert [failed["reason"] for failed in last["failed"]] == [reason]
