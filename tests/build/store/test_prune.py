"""Pruning a store: what is removed, what is kept, and that running builds are not disturbed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from precast.build.disk.last_use import RESOLUTION
from precast.build.disk.scratch import scratch_file
from precast.build.gpu.profile import Profile, profile_of
from precast.build.inputs.input_answers import answers_here
from precast.build.store import prune as pruning
from precast.build.store.lookup import Lookup
from precast.build.store.prune import StoredFile, StoreUsage, prune, select_unused, stored_files
from precast.build.store.record import Record
from precast.build.store.store import Store
from precast.cli.main import app
from precast.loader.contract.format.target import Target

DAY = 86400.0
H200 = profile_of(Target.parse("sm_90a"))
KEYS = [f"{n:02x}" * 32 for n in range(5)]


def filled(folder: Path) -> Store:
    """A store with five records, of which each was last used a day before the next; the last one today."""
    store = Store(folder)
    for age, key in enumerate(reversed(KEYS)):
        store.put(key, Record(key=key, products=(), seconds=1.0))
        (file,) = folder.glob(f"??/{key}.record")
        moment = time.time() - age * DAY
        os.utime(file, (moment, moment))
    return store


def find(store: Store, key: str, profile: Profile) -> Record | None:
    return Lookup(store, answers_here([])).find(key, profile)


def held(store: Store) -> list[int]:
    """The numbers of the records that are there; reading the files' names is no use of them."""
    return sorted(KEYS.index(path.stem) for path in store.path.glob("??/*.record"))


def test_what_was_not_used_for_long_is_removed(tmp_path: Path) -> None:
    store = filled(tmp_path)
    removed = prune(store, older_than=2.5 * DAY)
    assert removed.records == 2 and removed.size > 0 and held(store) == [2, 3, 4]
    assert prune(store, older_than=2.5 * DAY) == StoreUsage(0, 0)


def test_the_longest_unused_go_first_until_the_rest_fits(tmp_path: Path) -> None:
    store = filled(tmp_path)
    newest = sum(path.stat().st_size for key in KEYS[3:] for path in tmp_path.glob(f"??/{key}.record"))
    assert prune(store, keep=newest).records == 3 and held(store) == [3, 4]
    assert prune(store, keep=0).records == 2 and stored_files(store) == []


@pytest.mark.parametrize("how", ["read", "up to date"])
def test_a_use_keeps_a_record(tmp_path: Path, how: str) -> None:
    store = filled(tmp_path)
    if how == "read":
        assert find(store, KEYS[0], H200) is not None
    else:
        record = Lookup(store, answers_here([])).record_key(KEYS[0], H200)
        assert record is not None
        store.mark_used(record)
    prune(store, older_than=2.5 * DAY)
    assert held(store) == [0, 2, 3, 4]


def test_a_use_is_written_once_an_hour(tmp_path: Path) -> None:
    """So that a build that reads thousands of records writes to none of them, where they were used just before."""
    store = filled(tmp_path)
    (file,) = tmp_path.glob(f"??/{KEYS[4]}.record")
    for age, changes in ((RESOLUTION / 2, False), (RESOLUTION * 2, True)):
        moment = int(time.time() - age)
        os.utime(file, (moment, moment))
        find(store, KEYS[4], H200)
        assert (file.stat().st_mtime != moment) == changes


def test_entries_of_the_memo_are_pruned_too(tmp_path: Path) -> None:
    store = filled(tmp_path)
    for name in ("old", "used"):
        store.notes.put("imports", name, ["x"])
        os.utime(tmp_path / "notes" / "imports" / f"{name}.json", (0, 0))
    assert store.notes.get("imports", "used") == ["x"]
    prune(store, older_than=30 * DAY)
    assert (store.notes.get("imports", "old"), store.notes.get("imports", "used")) == (None, ["x"])
    assert held(store) == [0, 1, 2, 3, 4]


def test_beside_running_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is being written stays; what is used or removed between listing and removing is no error, and used stays."""
    store = filled(tmp_path)
    folder = tmp_path / KEYS[0][:2]
    listed = stored_files(store)

    def list_then_use(of: Store) -> list[StoredFile]:
        find(store, KEYS[0], H200)
        next(tmp_path.glob(f"??/{KEYS[1]}.record")).unlink()
        return listed

    monkeypatch.setattr(pruning, "stored_files", list_then_use)
    with scratch_file(folder, ".writing-") as writing:
        (folder / ".writing-left").write_bytes(b"of a killed build")
        assert writing not in [file.path for file in stored_files(store)]
        assert prune(store, keep=0).records == 3
        assert writing.exists()
    assert held(store) == [0]
    assert find(store, KEYS[0], H200) is not None
    assert not (folder / ".writing-left").exists()
    store.put(KEYS[2], Record(key=KEYS[2], products=(), seconds=1.0))
    assert find(store, KEYS[2], H200) is not None, "a pruned record can be written again"


def test_both_limits_hold() -> None:
    files = [StoredFile(path=Path(f"ab/{n}.record"), size=10, used=float(n)) for n in range(10)]
    assert len(select_unused(files, now=20.0, older_than=15.0)) == 5
    assert len(select_unused(files, now=20.0, older_than=15.0, keep=20)) == 8
    assert len(select_unused(files, now=20.0, older_than=15.0, keep=90)) == 5
    assert select_unused(files, now=20.0) == []


def run(store: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["store", "--store", str(store), *words])


def test_the_command(tmp_path: Path) -> None:
    store = filled(tmp_path)
    size = StoreUsage.of(stored_files(store)).size
    assert run(tmp_path).output == f"{tmp_path}: 5 records, {size} B\n"
    assert "--prune would remove 2 records" in run(tmp_path, "--older-than", "60h").output
    assert held(store) == [0, 1, 2, 3, 4]
    assert "removed 2 records" in run(tmp_path, "--prune", "--older-than", "60h").output
    data = json.loads(run(tmp_path, "--prune", "--keep", "0", "--json").output)
    assert (data["records"], data["size"], data["removed"]["records"]) == (0, 0, 3)


def test_an_empty_or_absent_store(tmp_path: Path) -> None:
    assert run(tmp_path / "absent", "--prune", "--keep", "1G").output.endswith("removed 0 records, 0 B\n")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("words", [["--prune"], ["--older-than", "30"], ["--keep", "-1"], ["--keep", "2X"]])
def test_a_wrong_request(tmp_path: Path, words: list[str]) -> None:
    store = filled(tmp_path)
    assert run(tmp_path, *words).exit_code == 2
    assert held(store) == [0, 1, 2, 3, 4]
