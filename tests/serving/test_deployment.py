"""A deployment under load: nothing is lost and nothing is wrong, and the load test finds it where that is not so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from serving.load_test import Releases, faults, prompts_of
from serving.start import preload

from precast import loader
from precast.loader import session
from precast.loader.machine.machine import Machines
from tests.helpers.echo import HOPPER

pytestmark = pytest.mark.slow

HELPERS = Path(__file__).parents[1] / "helpers" / "serving"


def load_test(*words: object) -> tuple[int, dict[str, Any]]:
    """Run the load test in a process: its exit status, and what it saw."""
    load = [sys.executable, "-m", "serving.load_test", "--requests", "300", "--clients", "8", "--prompts", "12"]
    load += ["--vocabulary", "97", "--longest", "32", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": "examples"}
    done = subprocess.run(
        load, cwd=HELPERS.parents[2], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, seen


def test_nothing_is_lost_and_nothing_is_wrong(caches: tuple[Path, Path]) -> None:
    old, new = caches
    double = (sys.executable, HELPERS / "double.py", "--drain", "0.5")
    status, seen = load_test("--old", old, "--new", new, "--", *double)
    assert (status, seen["faults"]) == (0, []), seen
    assert seen["right"] == seen["answered"] == seen["requests"] >= 300
    assert seen["lost"] == 0 and seen["by"]["first"] > 0 and seen["by"]["second"] > 0
    assert seen["kernels loaded while serving"] == {"first": 0, "second": 0}
    assert seen["indexes"]["first, before"] == seen["indexes"]["first, after"] != seen["indexes"]["second"]


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        ("changes", "have no right answer"),
        ("refuses", "have no right answer"),
        ("drops", "have no right answer"),
        ("loads", "kernels were loaded while serving"),
        ("not", None),
    ],
)
def test_a_service_that_is_wrong_is_found(way: str, fault: str | None) -> None:
    status, seen = load_test("--", sys.executable, HELPERS / "wrong.py", way)
    assert status == (fault is not None), seen
    assert [one for one in seen["faults"] if fault is None or fault not in one] == []
    assert (seen["lost"] > 0) == (way == "drops")
    assert (len(seen["status"]) > 1) == (way == "refuses")


def test_each_thing_that_must_not_happen_is_a_fault() -> None:
    indexes = {"first, before": ["a"], "first, after": ["a"], "second": ["b"]}
    loads = {"first": 0, "second": 0}
    good = {"right": 9, "requests": 9, "exit": {"first": 0}, "under way at SIGTERM": 1, "replaced": True}
    good |= {"indexes": indexes, "kernels loaded while serving": loads}
    assert faults(good) == []
    bad: list[dict[str, Any]] = [
        {"right": 8}, {"kernels loaded while serving": {**loads, "second": 2}},
        {"exit": {"first": 0, "second": -15}}, {"under way at SIGTERM": 0},
        {"indexes": {**indexes, "first, after": ["b"]}}, {"indexes": {**indexes, "second": ["a"]}},
    ]  # fmt: skip
    assert [len(faults({**good, **one})) for one in bad] == [1] * len(bad)


def test_prompts_are_the_same_for_the_same_seed_and_fit() -> None:
    assert prompts_of(20, 97, 32) == prompts_of(20, 97, 32) != prompts_of(20, 97, 32, seed=1)
    assert all(len(one["prompt"]) + one["tokens"] <= 32 for one in prompts_of(200, 97, 32))


def test_a_start_while_the_cache_is_replaced_takes_one_cache_whole(
    caches: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Again and again: the link is switched, and the folder that it named is deleted, at any moment of a preload. What
    takes longer than the pause between two switches may give up; it never has kernels of two caches."""
    over, switched = threading.Event(), 0
    releases = [Releases(_made(tmp_path / str(n)), *caches) for n in range(60)]
    link = tmp_path / "current"
    link.symlink_to(releases[0].link)
    monkeypatch.setenv("PRECAST_CACHE_PATH", str(link))

    def replace() -> None:
        nonlocal switched
        for release in releases:
            if over.is_set():
                return
            beside = tmp_path / "next"
            beside.symlink_to(release.link)
            os.replace(beside, link)
            release.switch()
            switched += 1
            time.sleep(0.01)

    thread = threading.Thread(target=replace)
    before, seen, gave_up = session.default, 0, 0
    thread.start()
    try:
        while thread.is_alive():
            session.use(session.Session(machines=Machines(HOPPER)))
            try:
                preload()
            except loader.CacheError:
                gave_up += 1
                continue
            loader.freeze()
            kernels = [loader.get("scale", {"dtype": dtype}) for dtype in ("bfloat16", "float16", "float32")]
            found = tuple(kernel(0) for kernel in kernels)
            assert found in ((0, 10, 20), (40, 50, 60))
            seen += 1
    finally:
        over.set()
        thread.join()
        session.use(before)
    assert switched == len(releases) and seen > gave_up


def test_a_cache_that_is_replaced_in_the_middle_of_a_start_is_read_again(
    caches: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Releases(tmp_path, *caches)
    monkeypatch.setenv("PRECAST_CACHE_PATH", str(release.link))
    real, before = loader.preload, session.use(session.Session(machines=Machines(HOPPER)))

    def switched_now(*args: Any) -> object:
        if release.link.resolve().name == "old":
            release.switch()
        return real(*args)

    monkeypatch.setattr(loader, "preload", switched_now)
    try:
        preload()
        loader.freeze()
        assert loader.get("scale", {"dtype": "bfloat16"})(0) == 40
        shutil.rmtree(release.link.resolve())
        session.use(session.Session(machines=Machines(HOPPER)))
        with pytest.raises(loader.CacheError, match="not a folder"):
            preload()
    finally:
        session.use(before)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
