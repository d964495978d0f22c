"""What is built again, and what is not even looked at."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.builds import environment, events, manifest, module, precast, tree

# Runs the command in this process and tells which programs it started, and which large packages it tried to import.
WATCH = """
import json, sys
started, imported = [], set()
def hook(event, arguments):
    if event == "subprocess.Popen":
        started.append(" ".join(map(str, arguments[1])))
    elif event == "import":
        imported.add(arguments[0])
sys.addaudithook(hook)
from precast.cli.main import run
try:
    run(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
heavy = sorted({"cutlass", "torch", "tvm_ffi", "elftools"} & imported)
print(json.dumps({"started": started, "heavy": heavy}))
"""
pytestmark = pytest.mark.usefixtures("without_torch")

OPS = {f"k{i}": [1, 2] for i in range(3)}


class User:
    """A user's folder with three kernels in three modules and a helper, its store, and its cache."""

    def __init__(self, root: Path) -> None:
        self.folder, self.store, self.cache = root / "src", root / "store", root / "cache"
        for name in OPS:
            imports = "import helper\n\n\n" if name == "k0" else ""
            module(self.folder, name, f"{imports}def {name}(n: int):\n    return compile_add(n)\n")
        (self.folder / "helper.py").write_text("x = 1\n")
        self.manifest = manifest(self.folder, {f"{name}:{name}": values for name, values in OPS.items()})

    def build(self, cache: Path | None = None, *, store: Path | None = None) -> dict[str, list[str]]:
        """Build; which ops had what done, by event."""
        done = precast(store or self.store, "build", self.manifest, "-o", cache or self.cache, "--json", "-j", 1)
        assert done.returncode == 0, done.stderr
        found: dict[str, list[str]] = {"built": [], "reused": []}
        for event in events(done)[:-1]:
            if event["event"] in found:
                found[event["event"]].append(event["variant"]["op"].removeprefix("user."))
        report = events(done)[-1]
        assert report["built"] == len(found["built"])
        return {name: sorted(set(ops)) for name, ops in found.items()}


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    made = User(tmp_path_factory.mktemp("user"))
    assert made.build() == {"built": ["k0", "k1", "k2"], "reused": []}
    yield made


def watched(user: User, *arguments: object) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", WATCH, "build", str(user.manifest), "-o", str(user.cache), *map(str, arguments)],
        env=environment(user.store), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_nothing_to_do_starts_no_worker_and_imports_no_compiler(user: User) -> None:
    before = tree(user.cache)
    found = watched(user)
    assert [line for line in found["started"] if "precast" in line] == []
    assert found["heavy"] == []
    assert tree(user.cache) == before


def test_touching_one_kernel_builds_its_variants_alone(user: User) -> None:
    """And the cache is the one that a clean build of the same sources makes."""
    path = user.folder / "k1.py"
    path.write_text(path.read_text().replace("compile_add(n)", "compile_add(n + 10)"))
    assert user.build() == {"built": ["k1"], "reused": ["k0", "k2"]}
    clean = user.store.parent / "clean"
    user.build(clean, store=user.store.parent / "clean store")
    assert tree(user.cache) == tree(clean)


def test_touching_what_only_checks_a_kernel_builds_nothing(user: User) -> None:
    path = user.folder / "k2.py"
    declared = '@kernel(op="user.k2", tolerance=lambda config: 1)\ndef k2'
    path.write_text("from precast.kernels import kernel\n" + path.read_text().replace("def k2", declared))
    assert user.build()["built"] == ["k2"]
    path.write_text(path.read_text().replace("config: 1", "config: 2"))
    assert user.build()["built"] == []
    assert precast(user.store, "check", user.manifest, user.cache).returncode == 0
    clean = user.store.parent / "clean of checks"
    user.build(clean, store=user.store.parent / "clean store of checks")
    assert tree(user.cache) == tree(clean)


def test_touching_a_helper_builds_those_that_reach_it(user: User) -> None:
    (user.folder / "helper.py").write_text("x = 2\n")
    assert user.build()["built"] == ["k0"]


def test_another_place_and_another_time_build_nothing(user: User) -> None:
    elsewhere = user.folder.parent / "elsewhere" / "checkout"
    shutil.copytree(user.folder, elsewhere, ignore=shutil.ignore_patterns("__pycache__"))
    done = precast(user.store, "build", elsewhere / "mine.yaml", "-o", user.folder.parent / "moved", "--json")
    assert events(done)[-1]["built"] == 0
    assert tree(user.folder.parent / "moved") == tree(user.cache)


@pytest.mark.parametrize("damage", ["truncate", "remove", "add"])
def test_a_damaged_cache_is_written_anew_without_compiling(user: User, damage: str) -> None:
    before = tree(user.cache)
    blob = min((user.cache / "blobs").iterdir())
    if damage == "truncate":
        blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    elif damage == "remove":
        blob.unlink()
    else:
        (user.cache / "blobs" / "unknown").write_bytes(b"x")
    assert user.build()["built"] == []
    assert tree(user.cache) == before


def test_a_damaged_record_is_built_again(user: User) -> None:
    shutil.rmtree(user.cache)
    record = min(user.store.glob("??/*.record"))
    record.write_bytes(record.read_bytes()[:-10])
    assert len(user.build()["built"]) <= 1
    record = next(p for p in user.store.glob("??/*.record"))
    assert user.build()["built"] == []


def test_damaged_notes_cost_time_and_nothing_else(user: User) -> None:
    before = tree(user.cache)
    for path in (user.store / "notes").rglob("*.json"):
        path.write_bytes(b"not a note")
    assert user.build()["built"] == []
    assert tree(user.cache) == before


def test_another_order_of_meaning_is_another_cache(user: User, tmp_path: Path) -> None:
    """The seal holds what keys do not: here the cache's name."""
    done = precast(user.store, "build", user.manifest, "-o", user.cache, "--name", "renamed", "--json")
    assert events(done)[-1]["built"] == 0
    assert b'"renamed"' in (user.cache / "index.json").read_bytes()
