"""Builds that are killed, that run at once, or find the disk full: what there is stays whole."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from precast.build.disk.scratch import write_atomically
from precast.build.store.store import Store
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import command, environment, manifest, module, new_store, precast, tree
from tests.helpers.forks.forked_process import run

pytestmark = pytest.mark.usefixtures("without_torch")

KILLS = 4
LANES = 2
ATTEMPTS = 6 * KILLS  # a build that ends before its moment is no kill; far fewer attempts are needed
CAUGHT = 1  # so many of them at least while the cache was being written, which takes milliseconds
PHASES = ("compile", "replace", "link")


def user(folder: Path, *, variants: int) -> Path:
    module(folder, "mine", "def add(n: int):\n    return compile_add(n)\n")
    return manifest(folder, {"mine:add": list(range(variants))})


def is_whole(path: Path) -> bool:
    """No cache, or one of which every byte is what the index promises. Half a cache is an error."""
    if not path.exists():
        return False
    cache = Cache(path)
    for op in cache.index.ops:
        for artifact in cache.op(op).artifacts:
            cache.read(artifact.blob)
    return True


def kill(process: int) -> None:
    """Kill a process and all that it has started."""
    tree_of = [process]
    for pid in tree_of:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                tree_of += [int(child) for child in children.read_text().split()]
    for pid in tree_of:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@dataclass
class Site:
    """A store that lanes share, the trees that a cache may have, and counts of what has happened."""

    place: Path
    manifest: Path
    old: dict[str, bytes]
    new: dict[str, bytes]
    env: dict[str, str]
    store: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[BaseException] = field(default_factory=list)

    def undo(self, phase: str, cache: Path) -> None:
        """Restore the old cache, and a store with none, half or all of the records that the build needs."""
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(self.place / "old", cache)
        missing = {"compile": 1.0, "link": 0.5, "replace": 0.0}[phase]
        records = sorted((self.place / "full").glob("??/*.record"))
        with self.lock:
            for number, record in enumerate(records):
                here = self.store / record.relative_to(self.place / "full")
                if number < missing * len(records):
                    here.unlink(missing_ok=True)
                else:
                    write_atomically(here, record.read_bytes())

    def check(self, cache: Path) -> None:
        """The cache is the old or the new one to the last byte; what the store shows can be read, every file of it."""
        assert is_whole(cache)
        found = tree(cache)
        assert found in (self.old, self.new)
        with self.lock:
            self.counts["new" if found == self.new else "old"] += 1
            store = Store(self.store)
            for record in self.store.glob("??/*.record"):
                assert store.read(record.stem) is not None, f"{record} is half-written"
            for note in store.notes.path.glob("*/*.json"):
                assert store.notes.get(note.parent.name, note.stem) is not None, f"{note} is half-written"


class Lane:
    """Builds one after the other into one cache, each until its moment: see ``phase``."""

    def __init__(self, site: Site, number: int, whole_build: float) -> None:
        self.site, self.number, self.cache = site, number, site.place / f"cache{number}"
        self.rolls = random.Random(number)
        self.spans = {"compile": whole_build, "link": 0.5, "replace": 0.1}

    def run(self, kills: int) -> None:
        """Kill so many builds, and continue until enough were killed while they wrote the cache."""
        done = 0
        try:
            while not self.site.errors and (done < kills or self.site.counts["caught"] < CAUGHT):
                assert self.site.counts["attempts"] < ATTEMPTS, self.site.counts
                done += self.killed(PHASES[(done - self.number) % len(PHASES)])
        except BaseException as error:
            self.site.errors.append(error)

    def killed(self, phase: str) -> bool:
        """One build that is killed, unless it ends before.

        The moment is drawn over all its time; in the later phases, over the time since the first sign of their writing,
        and early more often than late. How long that is, a build that ended says, and one that outlived its moment
        says that it is longer.
        """
        site = self.site
        site.undo(phase, self.cache)
        site.counts["attempts"] += 1
        moment = 1.1 * self.spans[phase] * self.rolls.random() ** (1 if phase == "compile" else 3)
        stale = self.signs(phase)
        build = subprocess.Popen(
            command("build", site.manifest, "-o", self.cache, "-j", 1), env=site.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        while phase != "compile" and build.poll() is None and self.signs(phase) <= stale:
            time.sleep(0.0005)
        begun = time.monotonic()
        try:
            build.wait(moment)
        except subprocess.TimeoutExpired:
            kill(build.pid)
        ended = build.wait() == 0
        assert ended or build.returncode == -signal.SIGKILL
        self.spans[phase] = time.monotonic() - begun if ended else max(self.spans[phase], 1.1 * moment)
        site.counts[f"{phase} {'ended' if ended else 'killed'}"] += 1
        site.counts["caught"] += phase == "replace" and not ended and not self.signs(phase) <= stale
        site.check(self.cache)
        return not ended

    def signs(self, phase: str) -> set[Path]:
        """What shows that a build is in this phase: files of the store, or temporary folders beside the cache."""
        site = self.site
        if phase == "link":
            return set(site.store.glob("??/*"))
        found = site.place.glob(f".{self.cache.name}.precast-*")
        return {path for path in found if ".precast-check-" not in path.name}


@pytest.mark.slow
def test_kills_of_whole_builds(tmp_path: Path) -> None:
    """Two builds at a time into one store, each killed again and again; before each, some of the work is undone.

    The kills are at random moments of every phase. What a kill leaves at each single step of writing a file or a cache
    is tested without a compiler: tests/build/cache/test_cache_folder.py and tests/build/disk/test_scratch.py.
    """
    store, undisturbed = tmp_path / "store", tmp_path / "undisturbed"
    env = environment(store)

    def build(manifest: Path, cache: Path, **more: str) -> float:
        begun = time.monotonic()
        done = run(("build", manifest, "-o", cache, "-j", 1), {**env, **more})
        assert done.returncode == 0, done.stderr
        return time.monotonic() - begun

    other = new_store(tmp_path / "other")
    build(user(tmp_path / "old src", variants=1), tmp_path / "old", PRECAST_STORE=str(other))
    mine = user(tmp_path / "src", variants=2)
    whole_build = build(mine, undisturbed, PRECAST_STORE=str(tmp_path / "full"))
    site = Site(tmp_path, mine, tree(tmp_path / "old"), tree(undisturbed), env, store)
    lanes = [Lane(site, number, whole_build) for number in range(LANES)]
    threads = [threading.Thread(target=lane.run, args=(KILLS // LANES,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert site.errors == []
    counts = site.counts
    assert sum(counts[f"{phase} killed"] for phase in set(PHASES)) >= KILLS, counts
    assert all(counts[f"{phase} killed"] for phase in PHASES), counts
    for lane in lanes:
        shutil.rmtree(store / "notes", ignore_errors=True)
        build(mine, lane.cache)
        assert tree(lane.cache) == site.new
    left = [p for p in tmp_path.rglob(".*") if p.name.startswith((".writing-", ".cache"))]
    assert left == [], "what killed builds left was not removed"


@pytest.mark.slow
def test_two_builds_at_once_into_one_cache(tmp_path: Path) -> None:
    mine = user(tmp_path / "src", variants=2)
    cache, store, another = tmp_path / "cache", new_store(tmp_path / "store"), new_store(tmp_path / "another")
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(lambda _: precast(store, "build", mine, "-o", cache, "-j", 1), range(2))
    for build in both:
        assert build.returncode == 0, build.stderr
    assert is_whole(cache)
    assert precast(another, "build", mine, "-o", tmp_path / "alone", "-j", 1).returncode == 0
    assert tree(cache) == tree(tmp_path / "alone")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.fixture
def small_disk(tmp_path: Path) -> object:
    """A file system of four megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path) -> Path:
    """Fill a disk with one file."""
    (disk / "ballast").write_bytes(b"")
    with contextlib.suppress(OSError), open(disk / "ballast", "ab", buffering=0) as ballast:
        while True:
            ballast.write(b"x" * 4096)
    return disk / "ballast"


@pytest.mark.slow
def test_a_full_store_costs_only_what_it_would_have_kept(tmp_path: Path, small_disk: Path) -> None:
    mine, store, cache = user(tmp_path / "src", variants=2), small_disk / "store", tmp_path / "cache"
    assert precast(store, "build", mine, "-o", cache, "-j", 1).returncode == 0
    user(tmp_path / "src", variants=4)
    ballast = fill(small_disk)
    done = precast(store, "build", mine, "-o", cache, "-j", 1)
    assert done.returncode == 0 and "2 variants built, 2 reused" in done.stdout, done.stderr
    assert done.stderr.count(f"the store {store} is full ('precast store --prune'") == 1
    assert is_whole(cache)
    ballast.unlink()
    again = precast(store, "build", mine, "-o", tmp_path / "again", "-j", 1)
    assert "2 variants built, 2 reused" in again.stdout, "no record is there in part"
    assert tree(tmp_path / "again") == tree(cache)


@pytest.mark.slow
def test_a_full_disk_is_a_clear_error_and_the_old_cache_stands(tmp_path: Path, small_disk: Path) -> None:
    mine = user(tmp_path / "src", variants=1)
    cache, store = small_disk / "cache", new_store(tmp_path / "store")
    assert precast(store, "build", mine, "-o", cache, "-j", 1).returncode == 0
    before = tree(cache)
    user(tmp_path / "src", variants=2)
    ballast = fill(small_disk)
    done = precast(store, "build", mine, "-o", cache, "-j", 1)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "free disk space or choose another" in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(cache) == before
    assert is_whole(cache)
    ballast.unlink()
    assert precast(store, "build", mine, "-o", cache, "-j", 1).returncode == 0
    assert list(small_disk.rglob(".*")) == []
