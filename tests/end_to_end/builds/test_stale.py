"""Builds after edits: a variant is built again when something changed that it read, in whichever way, and only then.

``tests/build/inputs/test_routes.py`` has more ways, one process each.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.builds import events, manifest, module, new_store, precast, tree
from tests.helpers.inputs.random_package import RandomPackage

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

READING = {
    "data": "import json, pathlib\ndef made(n: int):\n"
    "    return compile_add(json.loads((pathlib.Path(__file__).parent / 'tiles.json').read_text())[0] + n)\n",
    "computed": "import importlib\ndef made(n: int):\n"
    "    return compile_add(importlib.import_module('til' + 'ing').SIZE + n)\n",
    "star": "from pk import *\ndef made(n: int):\n    return compile_add(inner.SIZE + n)\n",
    "inserted": "import sys\nsys.path.insert(0, OUTSIDE)\nimport outside\n"
    "def made(n: int):\n    return compile_add(outside.SIZE + n)\n",
    "packaged": "from importlib.resources import files\ndef made(n: int):\n"
    "    return compile_add(int((files('pk') / 'size.txt').read_text()) + n)\n",
    "optional": "try:\n    import faster\n    SIZE = faster.SIZE\nexcept ImportError:\n    SIZE = 3\n"
    "def made(n: int):\n    return compile_add(SIZE + n)\n",
    "generated": "import made_up\ndef made(n: int):\n    return compile_add(made_up.SIZE + n)\n",
    "nothing": "def made(n: int):\n    return compile_add(n)\n",
}


DECLARED = {"data": "tiles.json", "computed": "tiling.py", "inserted": "../home/lib", "packaged": "pk/size.txt"}


class Project:
    """Modules that each read something in another way, and a build of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.outside = folder / "src", folder / "home", folder / "home" / "lib"
        for place in (self.folder / "pk", self.home, self.outside):
            place.mkdir(parents=True)
        for name, text in READING.items():
            module(
                self.folder, name, text.replace("OUTSIDE", repr(str(self.outside))).replace("made(", f"{name}_made(")
            )
        self.write("tiles.json", "[1]")
        self.write("tiling.py", "SIZE = 1\n")
        self.write("pk/__init__.py", "__all__ = ['inner']\n")
        self.write("pk/inner.py", "SIZE = 1\n")
        self.write("pk/size.txt", "1")
        self.write("made_up.py", "SIZE = 1\n")
        (self.outside / "outside.py").write_text("SIZE = 1\n")
        self.manifest = manifest(self.folder, {f"{name}:{name}_made": [1] for name in READING})
        text = self.manifest.read_text()
        for name, path in DECLARED.items():
            line = f"    op: user.{name}_made\n"
            text = text.replace(line, f"{line}    inputs: {{files: {path}}}\n")
        self.manifest.write_text(text)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def precast(self, store: str, *arguments: object) -> Any:
        done = precast(new_store(self.folder / store), *arguments, HOME=str(self.home))
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def to_build(self) -> dict[str, list[str]]:
        """The ops that a build would build, with the names of what has changed."""
        done = self.precast("store", "plan", self.manifest, "--explain", "--json")
        found = json.loads(done.stdout)["variants"]
        return {v["op"]: [c["name"] for c in v["changes"]] for v in found if not v["reused"]}


def regenerate(project: Project) -> None:
    """Another content of the same length, under the same time stamp."""
    path = project.folder / "made_up.py"
    before = path.stat()
    path.write_text("SIZE = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


EDITS: dict[str, tuple[Callable[[Project], object], str]] = {
    "data": (lambda p: p.write("tiles.json", "[2]"), "file:search/tiles.json"),
    "computed": (lambda p: p.write("tiling.py", "SIZE = 2\n"), "file:search/tiling.py"),
    "star": (lambda p: p.write("pk/inner.py", "SIZE = 2\n"), "file:search/pk/inner.py"),
    "inserted": (lambda p: (p.outside / "outside.py").write_text("SIZE = 2\n"), "folder:~/lib"),
    "packaged": (lambda p: p.write("pk/size.txt", "2"), "file:search/pk/size.txt"),
    "optional": (lambda p: p.write("faster.py", "SIZE = 4\n"), "source"),
    "generated": (regenerate, "file:search/made_up.py"),
}


def test_each_way_of_reading_is_noticed_and_nothing_else(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.precast("store", "build", project.manifest, "-o", tmp_path / "cache")
    found = project.to_build()
    assert found == {}
    for edit, _ in EDITS.values():
        edit(project)
    found = project.to_build()
    assert found.keys() == {f"user.{name}_made" for name in EDITS}
    for name, (_, noticed) in EDITS.items():
        changes = found[f"user.{name}_made"]
        assert any(noticed in change for change in changes), (name, found)
        others = {other for _, other in EDITS.values() if other != noticed}
        assert not [change for change in changes if any(other in change for other in others)], (name, found)
    stale = precast(project.folder / "store", "check", project.manifest, tmp_path / "cache", HOME=str(project.home))
    assert stale.returncode == 1 and "file:search/tiles.json has changed" in stale.stdout
    done = project.precast("store", "build", project.manifest, "-o", tmp_path / "cache", "--json")
    assert events(done)[-1]["built"] == len(EDITS)


def artifacts(files: Mapping[str, bytes]) -> set[str]:
    """The artifacts of a cache, each without how its blob is stored: that depends on all of them."""
    rows = [
        (name, {**row, "blob": row["blob"]["sha256"]})
        for name, data in files.items()
        if name.startswith("ops/")
        for row in json.loads(data)["artifacts"]
    ]
    return {json.dumps(row, sort_keys=True) for row in rows}


# No edit of a round changes a kernel that another one of it changes, which would hide that it is not noticed.
ROUNDS = (("data", "shadow", "touch"), ("use", "restore"), ("constant",))


def test_after_edits_the_cache_is_what_a_build_from_scratch_makes(tmp_path: Path) -> None:
    """And ``check`` finds the cache stale if, and only if, a build then writes an artifact that was not there.

    ``PRECAST_EDITS`` says how many random edits follow, and ways of reading. After a few of them comes a build from
    scratch. What each way notices is tested one by one: ``tests/build/inputs/test_routes.py``.
    """
    most, chances = int(os.environ.get("PRECAST_EDITS", "0")), random.Random(os.environ.get("PRECAST_SEED", "7"))
    package = RandomPackage(tmp_path / "src", seed=chances.randrange(1000), most=most)
    drawn = [chances.choices(package.kinds, k=3) for _ in range(-(-most // 3))]
    cache = tmp_path / "cache"

    def run(store: str, *arguments: object) -> None:
        done = precast(tmp_path / store, *arguments)
        assert done.returncode == 0, (done.stdout, done.stderr)

    new_store(tmp_path / "store")  # that of a build from scratch knows nothing
    run("store", "build", package.manifest, "-o", cache, "-j", 1)
    for edits in (*ROUNDS, *drawn):
        for kind in edits:
            package.edit(kind)
        before = tree(cache)
        checked = precast(tmp_path / "store", "check", package.manifest, cache)
        run("store", "build", package.manifest, "-o", cache, "-j", 1)
        run("fresh", "build", package.manifest, "-o", tmp_path / "scratch", "-j", 1)
        assert tree(cache) == tree(tmp_path / "scratch"), edits
        assert (checked.returncode == 1) == (not artifacts(tree(cache)) <= artifacts(before)), (edits, checked.stdout)
        shutil.rmtree(tmp_path / "fresh")
