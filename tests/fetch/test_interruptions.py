"""Fetches that are killed, that run at once, or find the disk full: the cache at their place stays whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from precast.fetch.fetcher import fetch
from precast.loader.errors import CacheError, ConfigError, FetchError
from precast.loader.resolve.cache import Cache
from tests.helpers.fault_points import FINISHED, REFUSED, Fault, run, stopped, stopped_writing
from tests.helpers.packed_caches import tree
from tests.helpers.web.many import QUICK, many
from tests.helpers.web.served import Served, serve_as
from tests.helpers.web.server import Request, Response

# A child of a fault point only works on files and ends at once, so that threads of the tests do not matter to it.
forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
STRIDE = 9  # of a few hundred steps, so many are passed over between two kills


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with room for 1 MiB, as a container's volume is."""
    place = tmp_path / "volume"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def layers(tmp_path: Path) -> Iterator[Served]:
    with serve_as("layers", tmp_path / "served") as found:
        yield found


@forks
@pytest.mark.alone
@pytest.mark.parametrize("fault", ["kill", pytest.param("error", marks=pytest.mark.slow)])
def test_a_fault_at_any_step_leaves_the_old_or_the_new_cache(tmp_path: Path, fault: Fault) -> None:
    old, new = many(tmp_path / "old", blobs=6), many(tmp_path / "new", blobs=6, new=2)
    target = tmp_path / "place" / "cache"
    before, after = tree(old), tree(new)
    states = []
    for step in range(1, 160 if fault == "error" else 5000, STRIDE):  # an error may be of no consequence
        fetch(f"file://{old}", target)
        ended = stopped(lambda: fetch(f"file://{new}", target), target.parent, step, fault)
        found = tree(target)
        assert found in (before, after), f"step {step}"
        states.append("old" if found == before else "new")
        assert ended in (FINISHED, REFUSED, -signal.SIGKILL), f"step {step}"
        assert ended != FINISHED or found == after
        assert run(lambda: fetch(f"file://{new}", target)) == FINISHED
        assert tree(target) == after, f"step {step}"
        if ended == FINISHED and fault == "kill":
            break
    assert {"old", "new"} == set(states)
    assert len(states) > 10


def test_a_killed_fetch_goes_on_where_it_stopped(layers: Served, tmp_path: Path) -> None:
    """Half of a layer comes, and then nothing more until the process is killed; the next one asks for the rest."""
    cache = many(tmp_path / "large", blobs=8, largest=400_000)
    layers.put(cache)
    killed = threading.Event()

    first, hangs = threading.Event(), threading.Event()

    def half_then_hang(request: Request) -> Response:
        response = layers.handler(request)
        if "layers/" in request.path and len(response.body) > 100_000:
            if not first.is_set():
                first.set()
                return response.changed(cut=len(response.body) // 2)
            hangs.set()
            killed.wait(20)
        return response

    layers.misbehave(half_then_hang)
    target = tmp_path / "place" / "cache"
    command = [sys.executable, "-m", "precast.loader.fetch", layers.reference, "-o", str(target)]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert hangs.wait(20)
    running.kill()
    running.wait()
    killed.set()
    assert not target.exists()
    layers.behave()
    done = fetch(layers.reference, target, patience=QUICK)
    assert tree(target) == tree(cache)
    size = sum(p.stat().st_size for p in (cache / "blobs").iterdir())
    assert done.received < 0.7 * size, "half of it was there"
    assert os.listdir(target.parent) == ["cache"]


def test_two_fetches_into_one_place(layers: Served, new: Path, tmp_path: Path) -> None:
    layers.put(new)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: fetch(layers.reference, tmp_path / "cache", patience=QUICK), range(4)))
    assert tree(tmp_path / "cache") == tree(new)
    assert sorted(one.changed for one in done) == [False, False, False, True]
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_two_fetches_of_different_caches_into_one_place(served: Served, old: Path, new: Path, tmp_path: Path) -> None:
    served.put(new)
    with ThreadPoolExecutor(2) as pool:
        both = [served.reference, f"file://{old}"]
        list(pool.map(lambda reference: fetch(reference, tmp_path / "cache", patience=QUICK), both))
    assert tree(tmp_path / "cache") in (tree(old), tree(new))


def test_a_reader_sees_the_old_cache_or_the_new_one(old: Path, new: Path, tmp_path: Path) -> None:
    target, done = tmp_path / "cache", threading.Event()
    fetch(f"file://{old}", target)
    known = {(old / "index.json").read_bytes(), (new / "index.json").read_bytes()}
    wrong: list[object] = []
    read = [0]

    def reader() -> None:
        while not done.is_set():
            try:
                if (target / "index.json").read_bytes() not in known:
                    wrong.append("half an index")
                cache = Cache(target)
                cache.read(cache.op("first").artifacts[0].blob)
                read[0] += 1
            except CacheError:
                continue  # it was exchanged while it was opened, or after its index was read: open it again
            except BaseException as error:
                wrong.append(error)

    thread = threading.Thread(target=reader)
    thread.start()
    for _ in range(10):
        fetch(f"file://{new}", target)
        fetch(f"file://{old}", target)
    done.set()
    thread.join()
    assert wrong == [] and read[0] > 0


def test_a_volume_is_filled_from_within(old: Path, new: Path, volume: Path) -> None:
    for cache in (old, new):
        fetch(f"file://{cache}", volume)
        assert tree(volume) == tree(cache)
    assert not fetch(f"file://{new}", volume).changed


def test_the_current_folder_stays_the_current_folder(
    old: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for cache in (old, new):
        fetch(f"file://{cache}", ".")
        assert tree(Path()) == tree(tmp_path / "here") == tree(cache)


def test_a_fetch_that_got_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FetchError):
        fetch("http://127.0.0.1:9/caches", tmp_path / "cache", patience=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_a_volume_that_everyone_may_write_holds_caches_in_folders(old: Path, volume: Path) -> None:
    """As Kubernetes makes an emptyDir. The loader would refuse what lies in its root."""
    volume.chmod(0o777)
    with pytest.raises(ConfigError, match=r"is world-writable and cannot be replaced.*a folder below it"):
        fetch(f"file://{old}", volume)
    fetch(f"file://{old}", volume / "kernels")
    assert Cache(volume / "kernels").op("first").artifacts


def test_a_disk_without_room_is_told_before_anything_comes(tmp_path: Path, volume: Path) -> None:
    cache = many(tmp_path / "large", blobs=8, largest=1_000_000)
    with pytest.raises(FetchError, match=r"has [0-9]+ bytes free, but the fetch needs [0-9]+: make room"):
        fetch(f"file://{cache}", volume / "cache")
    assert not (volume / "cache").exists()


@forks
@pytest.mark.parametrize("size", [0, 100, 1500])
def test_a_disk_that_becomes_full_leaves_the_old_cache(old: Path, new: Path, tmp_path: Path, size: int) -> None:
    target = tmp_path / "place" / "cache"
    fetch(f"file://{old}", target)
    assert stopped_writing(lambda: fetch(f"file://{new}", target), size, "error") == REFUSED
    assert tree(target) == tree(old)
    fetch(f"file://{new}", target)
    assert tree(target) == tree(new)
    assert os.listdir(target.parent) == ["cache"]


def test_a_staging_folder_of_somebody_else_is_not_used(old: Path, tmp_path: Path) -> None:
    """In a folder that others may write, too, such as /tmp: who made it first could change it until the end."""
    staging = tmp_path / ".cache.precast-fetch"
    staging.mkdir()
    staging.chmod(0o777)
    with pytest.raises(FetchError, match="belongs to another user or is world-writable: remove it"):
        fetch(f"file://{old}", tmp_path / "cache")
    staging.rmdir()
    (tmp_path / "elsewhere").mkdir()
    staging.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FetchError, match="cannot be written"):
        fetch(f"file://{old}", tmp_path / "cache")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_ctrl_c_ends_it_at_once(layers: Served, new: Path, tmp_path: Path) -> None:
    layers.put(new)
    release = threading.Event()
    asked = threading.Event()

    def hang(request: Request) -> Response:
        if "layers/" in request.path:
            asked.set()
            release.wait(600)
        return layers.handler(request)

    layers.misbehave(hang)
    command = [sys.executable, "-m", "precast.loader.fetch", layers.reference, "-o", str(tmp_path / "cache")]
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's background ignores it
    )  # fmt: skip
    try:
        assert asked.wait(120)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=120)  # it waits for no answer
    finally:
        release.set()
    assert (running.returncode, said) == (130, "interrupted: run it again to resume\n")
