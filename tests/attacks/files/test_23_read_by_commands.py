"""The same by the commands of the builder, which read more of a cache than the loader does: all files of it.

A pipe would hold them permanently, and a link to a device, or a file with a hole, would fill the memory or the disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.build.cache.up_to_date import tree_digest
from precast.build.store.store import Store
from precast.fetch.transport.folder_swap import content_problem
from precast.loader.regular_file import open_regular, read_regular
from tests.helpers.builds import events, manifest, module, precast
from tests.helpers.caches import Native, demo

SECONDS = 30
HOLE = 256 << 30


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HOLE)


THINGS = [pipe, link_to_device, hole]
COMMANDS = {
    "list": lambda evil, good, out: ["list", evil],
    "show": lambda evil, good, out: ["show", evil, "scale"],
    "diff": lambda evil, good, out: ["diff", good, evil],
    "merge": lambda evil, good, out: ["merge", evil, "-o", out],
    "report": lambda evil, good, out: ["report", evil, "-o", out.with_suffix(".html")],
    "wheel": lambda evil, good, out: ["wheel", evil, "-o", out],
    "fetch": lambda evil, good, out: ["fetch", f"file://{evil}", "-o", out],
    "push": lambda evil, good, out: ["push", evil, f"file://{out}"],
}
OF_THE_INDEX = ("list", "show", "report")  # which read no blob
PARTS = ("index.json", "ops/scale.json", "blobs")
# A pipe in every part for each command; the others where a command may copy them, and in every part for one command.
CASES = [
    (name, part, make)
    for name in COMMANDS
    for part in PARTS
    for make in THINGS
    if make is pipe or name == "list" or (part == "blobs" and name not in OF_THE_INDEX)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part", "make"), CASES)
def test_a_command_refuses_it(path: Path, tmp_path: Path, name: str, part: str, make: Callable[[Path], None]) -> None:
    good = demo(Native(tmp_path)).write(tmp_path / "good")
    place = path / part if part != "blobs" else min((path / "blobs").iterdir())
    place.unlink()
    make(place)
    begun = time.monotonic()
    done = precast(tmp_path / "store", *COMMANDS[name](path, good, tmp_path / "out"))
    assert time.monotonic() - begun < SECONDS
    served = name in OF_THE_INDEX and part == "blobs"
    assert done.returncode == (0 if served else 1), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert served or "error:" in done.stderr or "different" in done.stdout
    written = [file for file in (tmp_path / "out").rglob("*") if file.is_file()] if (tmp_path / "out").exists() else []
    assert sum(file.stat().st_size for file in written) < 1 << 20


@pytest.mark.parametrize("make", THINGS)
def test_a_file_is_regular_and_bounded(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "thing")
    with pytest.raises(OSError, match=r"regular file|more than 100 bytes|symbolic links"):
        read_regular(tmp_path / "thing", 100)
    if make is not hole:
        with pytest.raises(OSError, match=r"regular file|symbolic links"):
            open_regular(tmp_path / "thing")
    with pytest.raises(OSError):
        read_regular(tmp_path, 100)
    (tmp_path / "plain").write_bytes(b"x" * 100)
    assert read_regular(tmp_path / "plain", 100) == b"x" * 100
    with pytest.raises(OSError, match="more than 99 bytes"):
        read_regular(tmp_path / "plain", 99)
    assert read_regular("/proc/self/status", 1 << 20).startswith(b"Name:"), "its size is stated as 0"


@pytest.mark.parametrize("make", THINGS)
def test_a_folder_that_would_be_replaced(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "index.json")
    assert "index.json cannot be read" in (content_problem(tmp_path) or "")
    assert tree_digest(tmp_path) is None


@pytest.mark.parametrize("make", THINGS)
def test_a_store(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A record counts as absent, with one warning."""
    key, warned = "ab" * 32, list[str]()
    store = Store(tmp_path, warned.append)
    (tmp_path / "ab").mkdir()
    make(store.record_file(key))
    make(tmp_path / "ab" / f"{key}.asked")
    assert store.read(key) is None and store.read(key) is None
    assert not any(facts.facts or facts.inputs for facts in store.requested(key))
    assert len(warned) == 2 and all("is not used" in text for text in warned), warned
    store.write(key, "asked", b"{}")
    assert read_regular(tmp_path / "ab" / f"{key}.asked", 10) == b"{}", "it is replaced"


def test_a_store_that_can_only_be_read() -> None:
    warned: list[str] = []
    store = Store(Path("/sys/nobody-writes-here"), warned.append)
    store.write("ab" * 32, "asked", b"{}")
    store.write("cd" * 32, "asked", b"{}")
    assert len(warned) == 1 and "is read-only" in warned[0], warned


GOOD = """
def good(n: int):
    return compile_add(n)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("without_torch")
def test_a_build_over_a_cache_with_pipes(tmp_path: Path) -> None:
    module(tmp_path, "fine", GOOD)
    words = ("build", manifest(tmp_path, {"fine:good": [1, 2]}), "-o", tmp_path / "cache", "--json")
    assert precast(tmp_path / "store", *words).returncode == 0
    for blob in (tmp_path / "cache" / "blobs").iterdir():
        blob.unlink()
        os.mkfifo(blob)
    for record in (tmp_path / "store").glob("??/*.record"):
        record.unlink()
        os.mkfifo(record)
    done = precast(tmp_path / "store", *words)
    assert done.returncode == 0, done.stderr
    assert events(done)[-1]["built"] == 2 and "not a regular file" in done.stderr
    (tmp_path / "cache" / "index.json").unlink()
    os.mkfifo(tmp_path / "cache" / "index.json")
    done = precast(tmp_path / "store", *words)
    assert done.returncode == 2 and "index.json cannot be read" in done.stdout + done.stderr
