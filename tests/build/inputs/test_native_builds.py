"""Builds after edits of what native code and other processes read: built again when it changed, and only then.

``tests/build/inputs/test_native_routes.py`` has more ways, one process each.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.builds import events, manifest, module, precast, tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

HERE = "import ctypes, os, pathlib, sqlite3, subprocess, sys\nHERE = pathlib.Path(__file__).parent\n"
C = "C = ctypes.CDLL(None)\nfor f in (C.fopen, C.fread, C.fgetc): f.restype = ctypes.c_void_p\n"
READING = {
    "by_fopen": C + "C.fgetc.argtypes = [ctypes.c_void_p]\nC.fgetc.restype = ctypes.c_int\n"
    "SIZE = C.fgetc(C.fopen(str(HERE / 'by_fopen.txt').encode(), b'r'))\n",
    "by_sqlite": "SIZE = sqlite3.connect(HERE / 'by_sqlite.db').execute('select x from t').fetchone()[0]\n",
    "by_folder": "F = os.open(HERE, os.O_RDONLY)\n"
    "SIZE = int(os.read(os.open('by_folder.txt', os.O_RDONLY, dir_fd=F), 9))\n",
    "by_cat": "SIZE = int(subprocess.check_output(['cat', HERE / 'by_cat.txt']))\n",
    "by_shell": "SIZE = int(os.popen(f'cd {HERE} && cat < by_shell.txt | tail -n 1').read())\n",
    "by_git": "SIZE = len(subprocess.check_output(['git', 'describe', '--tags'], cwd=HERE / 'by_git', text=True))\n",
    "by_script": "SIZE = int(subprocess.check_output([sys.executable, HERE / 'script.py']))\n",
    "by_pool": "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(1) as pool:\n"
    "    SIZE = int(pool.submit((HERE / 'by_pool.txt').read_text).result())\n",
    "nothing": "SIZE = len(subprocess.check_output(['echo', '1']))\n",
}
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


class Project:
    """Modules that each read something in another way, and a build of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "src"
        for name, text in READING.items():
            module(self.folder, name, f"{HERE}{text}def {name}_made(n: int):\n    return compile_add(SIZE + n)\n")
        self.write(
            "script.py", "import pathlib\nprint((pathlib.Path(__file__).parent / 'by_script.txt').read_text())\n"
        )
        for name in ("by_fopen", "by_folder", "by_cat", "by_shell", "by_script", "by_pool"):
            self.write(f"{name}.txt", "1")
        self.table(1)
        (self.folder / "by_git").mkdir()
        self.git("init", "-q")
        self.git("commit", "-q", "--allow-empty", "-m", "a")
        self.git("tag", "a")
        self.manifest = manifest(self.folder, {f"{name}:{name}_made": [1] for name in READING})

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def table(self, value: int) -> None:
        connection = sqlite3.connect(self.folder / "by_sqlite.db")
        with connection:
            connection.execute("drop table if exists t")
            connection.execute(f"create table t as select {value} as x")
        connection.close()

    def git(self, *words: str) -> None:
        subprocess.run([*GIT, *words], cwd=self.folder / "by_git", check=True)

    def precast(self, store: str, *arguments: object) -> Any:
        done = precast(self.folder / store, *arguments, HOME=os.environ["HOME"])
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def to_build(self) -> set[str]:
        """The ops that a build would build."""
        done = self.precast("store", "plan", self.manifest, "--explain", "--json")
        return {v["op"].removeprefix("user.") for v in json.loads(done.stdout)["variants"] if not v["reused"]}


DEFAULT = """
import pathlib, subprocess
SIZE = int(subprocess.check_output(["cat", pathlib.Path(__file__).parent / "size.txt"]))


def made(n: int = SIZE):
    return compile_add(n)
"""


def test_a_default_from_a_program_is_read_again(tmp_path: Path) -> None:
    module(tmp_path / "src", "one", DEFAULT)
    size, made = tmp_path / "src" / "size.txt", manifest(tmp_path / "src", {"one:made": [7]})
    made.write_text(made.read_text().replace("config: {n: [7]}", "config: {}"))
    for text in ("1", "2"):
        size.write_text(text)
        done = precast(tmp_path / "store", "plan", made, "--json")
        assert done.returncode == 0, done.stderr
        assert f'"n": {text}' in done.stdout


def test_shipped_kernels_have_no_more_inputs(tmp_path: Path) -> None:
    """The compiler's own native code reads nothing that counts: with the library and without it, caches are equal."""
    made = tmp_path / "shipped.yaml"
    kernels = "  - {kernel: rmsnorm, config: {dtype: bfloat16, hidden: 1024}, tuned: {threads: 128}}\n"
    made.write_text(f"version: 1\nname: shipped\ntargets: [sm_90a]\nkernels:\n{kernels}")
    for name, more in (("with", {}), ("without", {"XDG_CACHE_HOME": "/proc/nowhere"})):
        done = precast(tmp_path / name, "build", made, "-o", tmp_path / f"cache-{name}", **more)
        assert done.returncode == 0 and "untracked" not in done.stdout, done.stdout + done.stderr
        assert ("not observed" in done.stderr) == bool(more)
    assert tree(tmp_path / "cache-with") == tree(tmp_path / "cache-without")
    done = precast(tmp_path / "with", "build", made, "-o", tmp_path / "again")
    assert "1 reused" in done.stdout


EDITS: dict[str, Callable[[Project], object]] = {
    **{name: lambda p, name=name: p.write(f"{name}.txt", "2") for name in READING},  # type: ignore[misc]
    "by_sqlite": lambda p: p.table(2),
    "by_git": lambda p: p.git("tag", "-f", "-m", "a", "longer"),
}
del EDITS["nothing"]


def test_each_way_of_reading_is_noticed_and_nothing_else(tmp_path: Path) -> None:
    project = Project(tmp_path)
    done = project.precast("store", "build", project.manifest, "-o", tmp_path / "cache")
    assert "untracked" not in done.stdout, done.stdout
    expected: set[str] = set()
    assert project.to_build() == expected
    for name, edit in EDITS.items():
        edit(project)
        expected.add(f"{name}_made")
        assert project.to_build() == expected, name
    stale = precast(project.folder / "store", "check", project.manifest, tmp_path / "cache", HOME=os.environ["HOME"])
    assert stale.returncode == 1 and "file:search/by_cat.txt has changed" in stale.stdout
    done = project.precast("store", "build", project.manifest, "-o", tmp_path / "cache", "--json")
    assert events(done)[-1]["built"] == len(EDITS)
    project.precast("fresh", "build", project.manifest, "-o", tmp_path / "scratch")
    assert tree(tmp_path / "cache") == tree(tmp_path / "scratch")
