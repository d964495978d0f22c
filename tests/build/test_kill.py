"""Builds that are killed, that run at once, or find the disk full: what there is stays whole."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from precast.loader.cache import Cache
from precast.loader.errors import CacheError
from tests.build.fleet import command, environment, manifest, module, precast, tree

KILLS = 50
LANES = 2
SEEN_SECONDS = 130  # kills are made for so long at most; there are 50 in a third of it on two free cores


def user(folder: Path, *, variants: int = 12) -> Path:
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


def killed(mine: Path, store: Path, cache: Path, seconds: float) -> bool:
    """Run a build for so long, then kill it and all that it has started; whether it had ended by itself."""
    build = subprocess.Popen(
        command("build", mine, "-o", cache, "-j", 1), env=environment(store), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        build.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        tree_of = [build.pid]
        for pid in tree_of:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                tree_of += [int(child) for child in children.read_text().split()]
        for pid in tree_of:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        build.wait()
        return False


@pytest.mark.slow
def test_fifty_kills_at_random_moments(tmp_path: Path) -> None:
    """Two builds at a time into one store, each killed again and again; between kills some of the work is undone."""
    mine = user(tmp_path / "src")
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    begun = time.monotonic()
    assert precast(tmp_path / "other store", "build", mine, "-o", undisturbed, "-j", 1).returncode == 0
    whole_build = time.monotonic() - begun
    deadline = time.monotonic() + SEEN_SECONDS
    rolls = random.Random(20)
    counts, errors = {"killed": 0, "ended": 0, "whole": 0}, []
    lock = threading.Lock()

    def lane(cache: Path, moments: list[float]) -> None:
        for moment in moments:
            if time.monotonic() > deadline:
                return
            ended = killed(mine, store, cache, moment)
            try:
                whole = is_whole(cache)
            except CacheError as error:
                errors.append(error)
                return
            with lock:
                counts["ended" if ended else "killed"] += 1
                counts["whole"] += whole
                for record in sorted(store.glob("??/*.record"))[:: rolls.choice((2, 5, 100))]:
                    record.unlink(missing_ok=True)
                if rolls.random() < 0.3:
                    shutil.rmtree(store / "notes" / "seals", ignore_errors=True)

    moments = [rolls.uniform(0.1, whole_build * 1.1) for _ in range(KILLS)]
    caches = [tmp_path / f"cache{i}" for i in range(LANES)]
    lanes = [threading.Thread(target=lane, args=(c, moments[i::LANES])) for i, c in enumerate(caches)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    assert errors == []
    assert counts["killed"] >= 10, counts
    for cache in caches:
        shutil.rmtree(store / "notes", ignore_errors=True)
        last = precast(store, "build", mine, "-o", cache, "-j", 1)
        assert last.returncode == 0, last.stderr
        assert tree(cache) == tree(undisturbed)
        assert precast(store, "wheel", cache, "-o", tmp_path / "dist").returncode == 0
    left = [p for p in tmp_path.rglob(".*") if p.name.startswith((".writing-", ".cache"))]
    assert left == [], "what killed builds left was not removed"


def test_two_builds_at_once_into_one_cache(tmp_path: Path) -> None:
    mine = user(tmp_path / "src", variants=4)
    cache = tmp_path / "cache"
    both = [
        subprocess.Popen(
            command("build", mine, "-o", cache, "-j", 1), env=environment(tmp_path / "store"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for build in both:
        _, said = build.communicate(timeout=600)
        assert build.returncode == 0, said
    assert is_whole(cache)
    assert precast(tmp_path / "another", "build", mine, "-o", tmp_path / "alone", "-j", 1).returncode == 0
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


@pytest.mark.parametrize("full", ["store", "cache"])
def test_a_full_disk_is_a_clear_error_and_the_old_cache_stands(tmp_path: Path, small_disk: Path, full: str) -> None:
    mine = user(tmp_path / "src", variants=2)
    cache = small_disk / "cache"
    store = small_disk / "store" if full == "store" else tmp_path / "store"
    assert precast(store, "build", mine, "-o", cache, "-j", 1).returncode == 0
    before = tree(cache)
    user(tmp_path / "src", variants=4)
    (small_disk / "ballast").write_bytes(b"")
    try:
        with open(small_disk / "ballast", "ab", buffering=0) as ballast:
            while True:
                ballast.write(b"x" * 4096)
    except OSError:
        pass
    done = precast(store, "build", mine, "-o", cache, "-j", 1)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "make room or choose another place" in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(cache) == before
    assert is_whole(cache)
    (small_disk / "ballast").unlink()
    assert precast(store, "build", mine, "-o", cache, "-j", 1).returncode == 0
    assert list(small_disk.rglob(".*")) == []
