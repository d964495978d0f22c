"""The folder of a cache: what it may replace, and what is there after a fault at any step of replacing it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from precast.build import builder
from precast.build.cache.cache_folder import check_output, write_cache
from precast.build.cache.contents import CacheContents
from precast.build.errors import StoreError
from precast.build.store.store import Store
from precast.fetch.transport import folder_swap as swap
from precast.loader.contract.format.index import Index
from precast.loader.errors import PrecastError
from precast.loader.resolve.cache import Cache
from tests.helpers.fault_points import FINISHED, REFUSED, Fault, run, stopped, stopped_writing
from tests.helpers.packed_caches import Built, scale_plan, tree

# A child of a fault point only works on files and ends at once, so that threads of the tests do not matter to it.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

MOST_STEPS = 1000


def files(name: str) -> dict[str, bytes]:
    return {"index.json": Index(name=name, toolchain={}, runtimes=(), ops={}).encode()}


def mount(*arguments: str | Path) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a file system of its own, as a container's volume is."""
    place = tmp_path / "volume"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", place)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def bound(tmp_path: Path) -> Iterator[Path]:
    """A folder that is mounted at another place of the same file system: its device number does not tell."""
    place = tmp_path / "bound"
    place.mkdir()
    (tmp_path / "source").mkdir()
    mount("--bind", tmp_path / "source", place)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_no_umask_lets_everyone_write_a_cache(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_cache(tmp_path / "cache", {**files("mine"), "blobs/ab": b"code"})
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "cache").rglob("*")} == {0o775, 0o664}
    assert Cache(tmp_path / "cache").name == "mine"


@pytest.mark.parametrize("exchange", [True, False])
def test_a_cache_is_replaced_whole_and_nothing_else_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(swap, "_RENAME_EXCHANGE", 1 << 30)  # refused as by a file system that has none
    for name in ("one", "two"):
        write_cache(tmp_path / "cache", files(name))
        assert [p.name for p in tmp_path.iterdir()] == ["cache"]
        assert Index.decode((tmp_path / "cache" / "index.json").read_bytes()).name == name


def test_a_cache_that_appears_meanwhile_is_swapped_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another build was first: its folder is not empty, so that it cannot be renamed onto."""
    real = os.rename

    def rename(old: str | Path, new: str | Path) -> None:
        if not Path(new).exists():
            Path(new).mkdir()
            (Path(new) / "index.json").write_bytes(files("other")["index.json"])
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)
    write_cache(tmp_path / "cache", files("mine"))
    assert Index.decode((tmp_path / "cache" / "index.json").read_bytes()).name == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["cache"]


@pytest.mark.parametrize("kind", ["volume", "bound"])
def test_a_mount_point_is_replaced_from_within(tmp_path: Path, request: pytest.FixtureRequest, kind: str) -> None:
    place: Path = request.getfixturevalue(kind)
    (place / "lost+found").mkdir()
    check_output(place)
    for name in ("one", "two"):
        cache = Built(name=name, dtypes=(name,)).write(tmp_path / name)
        write_cache(place, tree(cache))
        assert tree(place) == tree(cache)
        assert CacheContents.open(place).verify().damaged == {}
    assert sorted(p.name for p in place.iterdir()) == ["blobs", "index.json", "lost+found", "ops"]


def _file(path: Path) -> Path:
    path.write_text("text")
    return path


def _folder_of_sources(path: Path) -> Path:
    path.mkdir()
    (path / "main.c").write_text("int main;")
    return path


def _below_a_file(path: Path) -> Path:
    path.write_text("text")
    return path / "deeper" / "cache"


def _dangling_link(path: Path) -> Path:
    path.symlink_to("nowhere")
    return path


REFUSED_PLACES = [
    (_file, "is not a folder: choose another"),
    (_folder_of_sources, "is not a cache and not empty: choose an empty or a new folder"),
    (_below_a_file, "is not a folder: choose another"),
    (_dangling_link, "is not a folder: choose another"),
    (lambda path: Path("/proc/precast/cache"), "is not writable for this user: choose another folder"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED_PLACES, ids=["file", "sources", "below", "link", "proc"])
def test_a_place_that_cannot_be_used_is_refused_before_anything_is_compiled(
    tmp_path: Path, make: Callable[[Path], Path], said: str
) -> None:
    """The plan names a module that does not exist: asking for more than the place would be another error."""
    place = make(tmp_path / "place")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match=said):
        builder.build(scale_plan("float16"), place, store=Store(tmp_path / "store"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_read_only_file_system_is_refused(volume: Path) -> None:
    mount("-o", "remount,ro", volume)
    for place in (volume, volume / "cache", volume / "deeper" / "cache"):
        with pytest.raises(StoreError, match="is not writable for this user"):
            check_output(place)


def test_checking_a_place_leaves_nothing_there(tmp_path: Path) -> None:
    for place in (tmp_path / "new", tmp_path / "deeper" / "new", tmp_path):
        check_output(place)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: thousands of files are synced to it."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


class Replacing:
    """An old cache at a place and a new one to replace it, in ways that a fault may end."""

    def __init__(self, place: Path, root: Path, *, more: int = 1) -> None:
        """``more`` artifacts are only in the new one; with twelve, it has a dictionary and compresses all anew."""
        self.place = place
        root.mkdir()
        self.old = tree(Built(dtypes=("both", "gone")).write(root / "old"))
        self.new = tree(Built(dtypes=("both", *(f"d{n}" for n in range(more)))).write(root / "new"))
        shutil.rmtree(root / "old")
        shutil.rmtree(root / "new")

    def reset(self) -> None:
        for entry in [*self.place.iterdir()] if self.place.exists() else []:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for name, data in self.old.items():
            (self.place / name).parent.mkdir(parents=True, exist_ok=True)
            (self.place / name).write_bytes(data)

    def write(self) -> None:
        write_cache(self.place, self.new)

    def state(self) -> str:
        """Which cache a reader sees: old, new, none, or one that it refuses. Wrong bytes are an error."""
        if not self.place.exists():
            return "none"
        found = {name: data for name, data in tree(self.place).items() if not name.startswith(".")}
        if found in (self.old, self.new):
            return "old" if found == self.old else "new"
        try:
            contents = CacheContents.open(self.place)
        except PrecastError:
            return "refused"
        for blob in contents.blobs.values():
            try:
                assert len(contents.read(blob)) == blob.size
            except PrecastError:
                return "refused"
        return "new with more" if any('"d0"' in identity.config for identity in contents.artifacts) else "old with more"

    def killed(self) -> list[str]:
        """What is there after a kill at each step, in their order; after each, the next build writes the new cache."""
        states = []
        for step in range(1, MOST_STEPS):
            self.reset()
            ended = stopped(self.write, self.place.parent, step, "kill")
            states.append(self.state())
            self.repaired(step)
            if ended == FINISHED:
                return states
            assert ended == -signal.SIGKILL
        raise AssertionError("there are more steps than expected")

    def failed(self, steps: int) -> list[str]:
        """What is there after an error at each of so many steps: the new cache where the build says so."""
        states = []
        for step in range(1, steps):
            self.reset()
            ended = stopped(self.write, self.place.parent, step, "error")
            states.append(self.state())
            assert ended in (FINISHED, REFUSED), f"step {step}"
            assert ended == REFUSED or states[-1] == "new", f"step {step}"
            self.repaired(step)
        return states

    def repaired(self, step: int) -> None:
        """The next build writes the whole cache, and removes what the fault left."""
        assert run(self.write) == FINISHED
        assert tree(self.place) == self.new
        left = [p for p in self.place.parent.rglob(".*") if "precast" in p.name]
        assert left == [], f"step {step}"


@pytest.mark.alone
def test_a_kill_or_an_error_at_any_step_leaves_the_old_or_the_new_cache(memory: Path) -> None:
    """Steps before the exchange leave the old cache, those after it the new one; no step leaves anything else."""
    replacing = Replacing(memory / "cache", memory / "work")
    killed = replacing.killed()
    assert set(killed) == {"old", "new"} and killed == sorted(killed, reverse=True), killed
    assert len(killed) > 2 * len(replacing.new), "every file has steps"
    assert set(replacing.failed(len(killed))) == {"old", "new"}


@pytest.mark.slow
@pytest.mark.alone
def test_without_an_exchange_a_kill_may_leave_none_but_never_half_a_cache(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "_RENAME_EXCHANGE", 1 << 30)
    killed = Replacing(memory / "cache", memory / "work").killed()
    assert set(killed) == {"old", "none", "new"} and killed.count("none") == 2, "before and after one call"


@pytest.mark.slow
@pytest.mark.alone
def test_on_a_mount_point_a_kill_leaves_the_old_cache_the_new_one_or_one_that_readers_refuse(
    tmp_path: Path, volume: Path
) -> None:
    """Until the first file is moved, the old one; while they are moved, refused; once the index is there, the new."""
    killed = Replacing(volume, tmp_path / "work").killed()
    order = ["old", "old with more", "refused", "new with more", "new"]
    assert set(killed) == set(order)
    assert killed == sorted(killed, key=order.index), killed


@pytest.mark.parametrize("size", [0, 1, 100, 1000])
@pytest.mark.parametrize("fault", ["kill", "error"])
@pytest.mark.parametrize("kind", ["folder", "volume"])
def test_a_file_written_in_part_is_never_seen(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, fault: Fault, size: int
) -> None:
    place: Path = request.getfixturevalue("volume") if kind == "volume" else tmp_path / "cache"
    replacing = Replacing(place, tmp_path / "work")
    replacing.reset()
    ended = stopped_writing(replacing.write, size, fault)
    assert ended == (-signal.SIGXFSZ if fault == "kill" else REFUSED)
    assert replacing.state() == "old"
    assert run(replacing.write) == FINISHED and tree(place) == replacing.new


def test_a_reader_of_a_mount_point_gets_right_bytes_or_an_error(tmp_path: Path, volume: Path) -> None:
    replacing = Replacing(volume, tmp_path / "work", more=12)
    replacing.reset()
    done, read = threading.Event(), [0]
    wrong: list[object] = []

    def reader() -> None:
        while not done.is_set():
            try:
                contents = CacheContents.open(volume)
                for identity, artifact in contents.artifacts.items():
                    dtype = str(artifact.config["dtype"])
                    if contents.read(artifact.blob) != f"library for {dtype}".encode() * 50:
                        wrong.append(identity)
                    read[0] += 1
            except PrecastError:
                continue
            except BaseException as error:
                wrong.append(error)
                return

    thread = threading.Thread(target=reader)
    thread.start()
    for _ in range(30):
        write_cache(volume, replacing.new)
        write_cache(volume, replacing.old)
    done.set()
    thread.join()
    assert wrong == [] and read[0] > 0
