"""Placement: what fits is put where its owner looks, whole or not at all, once for all processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from precast.attach.companions.companion import COMPANIONS, Companion
from precast.attach.companions.placement import Placement, folder_of_companion, place_files
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.index import digest
from precast.loader.errors import ConfigError
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.companions import FACTS, FILES, GROUP, cache_with

ROOT = "root"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return cache_with(tmp_path / "cache")


def placed(
    cache: Cache, root: Path, facts: Mapping[str, str] = FACTS, environment: Mapping[str, str] | None = None
) -> Placement:
    def here(companion: Companion) -> Mapping[str, str]:
        return facts

    return place_files(cache, root, here, environment or {})


def reason(placement: Placement) -> str:
    assert not placement.placed and len(placement.left_out) == 1
    return placement.left_out[0].reason


def test_files_are_where_their_owner_looks(cache: Cache, tmp_path: Path) -> None:
    placement = placed(cache, tmp_path / ROOT)
    ((variable, folder),) = placement.variables.items()
    assert variable == "TRITON_CACHE_DIR" and Path(folder).parent == tmp_path / ROOT
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*.*")}
    assert found == {**FILES, GROUP: b'{"child_paths": {"a": "' + folder.encode() + b'/K/a"}}'}
    assert (tmp_path / ROOT).stat().st_mode & 0o777 == 0o700
    assert "3 files" in str(placement)


def test_a_folder_with_a_long_path_is_refused(cache: Cache, tmp_path: Path) -> None:
    assert "set PRECAST_COMPANIONS to a folder with a shorter path" in reason(placed(cache, tmp_path / ("r" * 150)))


def test_a_start_is_not_recorded_where_paths_are_too_long() -> None:
    assert len(str(folder_of_companion(Path("/r"), "triton"))) == len(
        str(folder_of_companion(Path("/" + "r" * 150), "t"))
    )
    with pytest.raises(ConfigError, match="too long for triton: use a shorter one"):
        folder_of_companion(Path("/" + "r" * 200), "triton")


def test_a_folder_in_a_volume_that_all_may_write_is_of_this_user(cache: Cache, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    assert "others may write it" in reason(placed(cache, volume))
    assert placed(cache, volume / "companions").placed[0].files == 3


def test_a_second_start_writes_nothing(cache: Cache, tmp_path: Path) -> None:
    first = placed(cache, tmp_path / ROOT)
    times = [path.stat().st_mtime_ns for path in sorted((tmp_path / ROOT).rglob("*"))]
    second = placed(cache, tmp_path / ROOT)
    assert [first.placed[0].written, second.placed[0].written] == [3, 0]
    assert [path.stat().st_mtime_ns for path in sorted((tmp_path / ROOT).rglob("*"))] == times


def test_what_its_owner_adds_stays_and_what_is_lost_comes_back(cache: Cache, tmp_path: Path) -> None:
    folder = placed(cache, tmp_path / ROOT).placed[0].folder
    (folder / "K" / "add.cubin").write_bytes(b"cut")
    (folder / GROUP).unlink()
    (folder / "K" / "another.cubin").write_bytes(b"of its owner")
    again = placed(cache, tmp_path / ROOT).placed[0]
    assert again.written == 2 and (folder / "K" / "add.cubin").read_bytes() == FILES["K/add.cubin"]
    assert (folder / GROUP).exists() and (folder / "K" / "another.cubin").exists()


def test_what_does_not_fit_is_left_out_with_the_reason(cache: Cache, tmp_path: Path) -> None:
    other = {**FACTS, "triton": "3.9.0"}
    assert reason(placed(cache, tmp_path / ROOT, other)) == "they are of triton 3.8.0; 3.9.0 is installed"
    gpu = {**FACTS, "gpu": "NVIDIA H100 (9.0)"}
    assert "recorded with gpu NVIDIA H200 (9.0); here it is NVIDIA H100 (9.0)" in reason(
        placed(cache, tmp_path / ROOT, gpu)
    )
    assert "another version of precast-attach" in reason(placed(cache, tmp_path / ROOT, {}))


def test_a_folder_that_the_user_chose_stays(cache: Cache, tmp_path: Path) -> None:
    placement = placed(cache, tmp_path / ROOT, environment={"TRITON_CACHE_DIR": "/mine"})
    assert reason(placement) == "TRITON_CACHE_DIR=/mine is set: unset it"
    folder = placed(cache, tmp_path / ROOT).placed[0].folder
    assert placed(cache, tmp_path / ROOT, environment={"TRITON_CACHE_DIR": str(folder)}).placed


def test_the_first_of_two_caches_serves(cache: Cache, tmp_path: Path) -> None:
    first = placed(cache, tmp_path / ROOT)
    second = cache_with(tmp_path / "second", {"L/x": b"1"})
    assert reason(placed(second, tmp_path / ROOT, environment=first.variables)) == "another cache has some, too"


@pytest.mark.parametrize(
    ("name", "words"), [("ninja", "does not have it: upgrade it"), ("humming", COMPANIONS["humming"].refusal)]
)
def test_a_companion_that_cannot_serve(tmp_path: Path, name: str, words: str) -> None:
    assert words in reason(placed(cache_with(tmp_path / "cache", name=name), tmp_path / ROOT))


def test_damage_leaves_nothing_behind(cache: Cache, tmp_path: Path) -> None:
    assert cache.index.companions is not None
    for blob in (cache.path / "blobs").iterdir():
        if blob.name != cache.index.companions.sha256:
            blob.write_bytes(bytes([*blob.read_bytes()[:-1], 7]))
    assert "is damaged" in (why := reason(placed(cache, tmp_path / ROOT))) and "PCL05" in why
    assert not list((tmp_path / ROOT).iterdir())


def test_a_damaged_index_of_companions_is_a_reason(cache: Cache, tmp_path: Path) -> None:
    assert cache.index.companions is not None
    (cache.path / "blobs" / cache.index.companions.sha256).write_bytes(b"{}")
    assert "PCL05" in reason(placed(cache, tmp_path / ROOT))


@pytest.mark.parametrize("kind", ["link", "group", "file"])
def test_a_folder_that_others_may_change_is_refused(cache: Cache, tmp_path: Path, kind: str) -> None:
    root = tmp_path / ROOT
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        root.symlink_to(tmp_path / "elsewhere")
    elif kind == "group":
        root.mkdir()
        root.chmod(0o770)
    else:
        root.write_text("")
    assert "set PRECAST_COMPANIONS to a folder" in reason(placed(cache, root))


def test_a_folder_whose_path_cannot_stand_in_a_file_is_refused(cache: Cache, tmp_path: Path) -> None:
    assert "quotes" in reason(placed(cache, tmp_path / 'a"b'))


def test_a_process_that_is_killed_leaves_no_part_of_it(cache: Cache, tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:  # it dies once the first file is there
        read, kernel = Cache.read, digest(FILES["K/add.cubin"])

        def read_or_die(self: Cache, blob: Blob) -> bytes:
            if blob != self.index.companions and blob.sha256 != kernel:
                while not list((tmp_path / ROOT).rglob("*.cubin")):
                    pass
                os.kill(os.getpid(), signal.SIGKILL)
            return read(self, blob)

        mine: Any = Cache
        mine.read = read_or_die
        placed(cache, tmp_path / ROOT)
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    (aside,) = (tmp_path / ROOT).iterdir()
    assert aside.name.startswith(".precast-")
    assert placed(cache, tmp_path / ROOT).placed[0].written == 3
    assert not aside.exists()


def test_several_at_once_write_each_file_once(tmp_path: Path) -> None:
    files = {f"{n:03}/kernel": b"%d" % n for n in range(200)}
    cache_with(tmp_path / "cache", files)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: placed(Cache(tmp_path / "cache"), tmp_path / ROOT).placed[0], range(8)))
    assert sorted(each.written for each in done) == [0] * 7 + [200]


PROCESS = """
import sys
from pathlib import Path
from precast.attach.companions.placement import place_files
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.companions import FACTS
placement = place_files(Cache(sys.argv[1]), Path(sys.argv[2]), lambda companion: FACTS, {})
print(placement.placed[0].written, len(placement.left_out))
"""


@pytest.mark.slow
def test_eight_processes_at_once(tmp_path: Path) -> None:
    cache_with(tmp_path / "cache", {f"{n:04}/kernel": b"%d" % n for n in range(2000)})
    words = [sys.executable, "-c", PROCESS, str(tmp_path / "cache"), str(tmp_path / ROOT)]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert sorted(process.communicate()[0] for process in processes) == ["0 0\n"] * 7 + ["2000 0\n"]
