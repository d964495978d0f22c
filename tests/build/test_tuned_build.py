"""Builds of a manifest that names measurements: what is in the index, and when it is written again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast.build.measurements.fit import code_digest
from precast.build.measurements.tuning_file import Candidate, Group, TuningFile
from precast.loader.contract.format.target import Target
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import events, module, precast, tree
from tests.helpers.caches import run_alone
from tests.helpers.tuning.files import DATES, gpu

pytestmark = [pytest.mark.usefixtures("without_torch"), pytest.mark.slow]

MANIFEST = """
version: 1
name: mine
targets: [sm_90a]
path: .
%s
kernels:
  - compile: "k:k"
    op: user.k
    config: {n: 1}
    tuned: {threads: [64, 32]}
%s
"""
ONE, TWO = (("m", 1),), (("m", 2),)


class User:
    """A user's folder with one kernel in two variants, a store, and a cache."""

    def __init__(self, root: Path) -> None:
        self.folder, self.store, self.cache = root / "src", root / "store", root / "cache"
        module(self.folder, "k", "def k(n: int, threads: int):\n    return compile_add(n + threads)\n")
        self.manifest = self.folder / "mine.yaml"

    def say(self, tuning: str = "", problems: str = "") -> None:
        self.manifest.write_text(MANIFEST % (tuning, problems))

    def measured(self, times: dict[int, dict[Any, float]], code: dict[int, str] | None = None) -> None:
        """Write the file that the manifest names."""
        known = code or self.codes()
        candidates = tuple(
            Candidate(tuned={"threads": n}, code=known.get(n, "0" * 16), date=DATES[0], times=columns)
            for n, columns in times.items()
        )
        config = {"n": 1}
        group = Group(op="user.k", config=config, target=Target(9, 0, "a"), gpu="NVIDIA H200", candidates=candidates)
        (self.folder / "tuning").mkdir(exist_ok=True)
        (self.folder / "tuning" / "mine-h200.json").write_bytes(TuningFile((gpu(),), (group,)).encode())

    def codes(self) -> dict[int, str]:
        cache = Cache(self.cache)
        return {int(str(a.config["threads"])): code_digest(cache.read(a.blob)) for a in cache.op("user.k").artifacts}

    def build(self, *more: object, cache: Path | None = None) -> dict[str, Any]:
        """Build; the last event."""
        done = precast(self.store, "build", self.manifest, "-o", cache or self.cache, "--json", "-j", 1, *more)
        assert done.returncode == 0, done.stderr
        return events(done)[-1]

    def rows(self, cache: Path | None = None) -> list[dict[int, float]]:
        """The rows of the index, by threads."""
        opened = Cache(cache or self.cache).op("user.k")
        threads = {a.key: int(str(a.config["threads"])) for a in opened.artifacts}
        return [{threads[key]: time for key, time in row.times.items()} for row in opened.tuning]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("user")
    user = User(root)
    user.say()
    assert user.build()["built"] == 2
    return root


@pytest.fixture
def user(built: Path, tmp_path: Path) -> Iterator[User]:
    """A copy of a user whose variants are in the store."""
    shutil.copytree(built / "store", tmp_path / "store")
    shutil.copytree(built / "cache", tmp_path / "cache")
    made = User(tmp_path)
    made.say("tuning: tuning/mine-h200.json")
    yield made


def test_a_build_puts_them_into_the_index_and_nothing_else(user: User) -> None:
    before = tree(user.cache)
    user.measured({32: {ONE: 1.0, TWO: 9.0}, 64: {ONE: 2.0, TWO: 3.0}, 128: {ONE: 0.5}})
    report = user.build()
    assert (report["built"], report["reused"]) == (0, 2), "nothing is compiled for it"
    assert report["tuning"] == {"times": 4, "candidates": 2, "left_out": 1, "earlier": 0}
    assert user.rows() == [{32: 1.0, 64: 2.0}, {32: 9.0, 64: 3.0}]
    after = tree(user.cache)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"index.json", "ops/user.k.json"}
    again = user.folder.parent / "again"
    user.build(cache=again)
    assert tree(again) == after, "the same measurements give the same bytes"


def test_a_changed_file_is_seen_and_an_unchanged_one_is_nothing_to_do(user: User) -> None:
    user.measured({32: {ONE: 1.0}, 64: {ONE: 2.0}})
    user.build()
    first = tree(user.cache)
    assert "tuning" not in user.build(), "nothing was done"
    assert tree(user.cache) == first
    user.measured({32: {ONE: 4.0}, 64: {ONE: 2.0}}, {32: "e" * 16, 64: user.codes()[64]})
    report = user.build()
    assert report["built"] == 0 and report["tuning"]["earlier"] == 1
    assert user.rows() == [{32: 4.0, 64: 2.0}]
    user.say()
    user.build()
    assert user.rows() == []


def test_problems_and_measurements_are_part_of_no_key(user: User) -> None:
    keys = {a.key for a in Cache(user.cache).op("user.k").artifacts}
    user.say("tuning: tuning/mine-h200.json", "    problems: [{m: [1, 2]}]")
    user.measured({32: {ONE: 1.0}})
    assert user.build()["built"] == 0
    assert {a.key for a in Cache(user.cache).op("user.k").artifacts} == keys


def test_check_says_what_is_not_as_the_manifest_has_it(user: User) -> None:
    user.measured({32: {ONE: 1.0}, 64: {ONE: 2.0}})
    stale = precast(user.store, "check", user.manifest, user.cache)
    assert stale.returncode == 1
    assert "missing: 2 measured times of user.k, from the files under 'tuning'" in stale.stdout
    user.build()
    assert precast(user.store, "check", user.manifest, user.cache).returncode == 0
    user.say()
    extra = precast(user.store, "check", user.manifest, user.cache)
    assert extra.returncode == 0
    assert "extra: 2 measured times of user.k, not in any file under 'tuning'" in extra.stdout


def test_shards_merge_to_the_build_that_was_not_divided_and_diff_tells_measurements(user: User, tmp_path: Path) -> None:
    user.measured({32: {ONE: 1.0}, 64: {ONE: 2.0}})
    parts = [tmp_path / f"part{number}" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        user.build("--shard", f"{number}/2", cache=part)
    assert precast(user.store, "merge", *parts, "-o", tmp_path / "merged").returncode == 0
    told = precast(user.store, "diff", user.cache, tmp_path / "merged")
    assert "measurements of user.k none -> 2 times (" in told.stdout
    user.build()
    assert tree(tmp_path / "merged") == tree(user.cache)
    assert user.rows(tmp_path / "merged") == [{32: 1.0, 64: 2.0}]


def test_the_loader_chooses_by_them(user: User) -> None:
    user.measured({32: {ONE: 1.0, TWO: 9.0}, 64: {ONE: 2.0, TWO: 3.0}})
    user.build()
    run_alone(
        """
from precast import loader

for m, threads in ((1, 32), (2, 64)):
    found = loader.get("user.k", {"n": 1}, target="sm_90a", problem={"m": m})
    assert found.config["threads"] == threads, found.config
""",
        user.cache,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read (No such file or directory): run 'precast tune measure', or correct the path"),
        ("[]", "expected an object, got list: correct it, or measure again"),
        ('{"format": "precast-tuning", "version": 9}', "this precast reads version 1: upgrade precast"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_where_it_is_named(user: User, text: str | None, words: str) -> None:
    if text is not None:
        (user.folder / "tuning").mkdir()
        (user.folder / "tuning" / "mine-h200.json").write_text(text)
    for command in (["plan", user.manifest], ["build", user.manifest, "-o", user.cache]):
        done = precast(user.store, *command)
        assert done.returncode == 2
        assert f"{user.manifest}:6:9: " in done.stderr.replace("\n", "") and words in done.stderr
