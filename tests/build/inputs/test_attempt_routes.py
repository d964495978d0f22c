"""Files that decide whether an attempt succeeds, further names of files, and libraries of programs: all are inputs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.inputs.observed_project import ObservedProject
from tests.helpers.inputs.route import HERE, Route, Step, check_route, write

FILE = HERE + "import ctypes, os, subprocess, sys\nF = here / 'tiles.json'\n"
TRY = FILE + "try: {}\nexcept OSError: pass\n"
MADE, CHANGED = write("tiles.json", "1"), write("tiles.json", "2")
DATA, EXISTS, FOLDER = {"file:search/tiles.json"}, {"exists:search/tiles.json"}, {"exists:search/d"}
TOOL = "int tile(void); int main(void) { return tile(); }"
LIBRARY = {"file:search/libtile.so"}


def steps(*all_steps: Step) -> Step:
    return lambda project: [step(project) for step in all_steps]


def compiled(code: str, name: str, *options: str) -> Step:
    """The file ``name`` from C; ``@`` in an option is the folder."""

    def make(project: ObservedProject) -> None:
        project.write({"source.c": code})
        words = [option.replace("@", str(project.search)) for option in options]
        command = ["gcc", str(project.search / "source.c"), "-o", str(project.search / name), *words]
        subprocess.run(command, check=True)
        (project.search / "source.c").unlink()

    return make


def library(value: int) -> Step:
    return compiled(f"int tile(void) {{ return {value}; }}", "libtile.so", "-shared", "-fPIC")


def replaced(text: str) -> Step:
    """Another file takes the name."""

    def replace(project: ObservedProject) -> None:
        project.write({"new": text})
        os.replace(project.search / "new", project.search / "tiles.json")

    return replace


def folder(project: ObservedProject) -> None:
    (project.search / "d").mkdir()


def no_folder(project: ObservedProject) -> None:
    (project.search / "d").rmdir()


ROUTES = {
    "a library of a program": Route(
        FILE + "subprocess.run([here / 'tool'])\n", library(2), LIBRARY,
        steps(library(1), compiled(TOOL, "tool", "-L@", "-ltile", "-Wl,-rpath,@")),
    ),
    "a library that a variable leads to": Route(
        FILE + "subprocess.run([here / 'tool'], env={'LD_LIBRARY_PATH': str(here)})\n", library(2), LIBRARY,
        steps(library(1), compiled(TOOL, "tool", "-L@", "-ltile")),
    ),
    "a library that a variable adds": Route(
        FILE + "subprocess.run(['true'], env={'LD_PRELOAD': str(here / 'libtile.so')})\n", library(2), LIBRARY,
        library(1),
    ),
    "a library that a program opens": Route(
        FILE + "subprocess.run([here / 'tool', here / 'libtile.so'])\n", library(2), LIBRARY,
        steps(library(1), compiled("#include <dlfcn.h>\nint main(int n, char **words) "
                                   "{ return !dlopen(words[n - 1], RTLD_NOW); }", "tool")),
    ),
    "a further name of a file": Route(
        FILE + "(here / 'b').unlink(missing_ok=True)\nos.link(F, here / 'b')\n(here / 'b').read_text()\n",
        replaced("2"), DATA, MADE,
    ),
    "a further name by a program": Route(
        FILE + "(here / 'b').unlink(missing_ok=True)\nsubprocess.run(['ln', F, here / 'b'])\n"
        "(here / 'b').read_text()\n",
        replaced("2"), DATA, MADE,
    ),
    "the input of a program that is spawned": Route(
        FILE + "opened = (os.POSIX_SPAWN_OPEN, 0, str(F), os.O_RDONLY, 0)\n"
        "os.waitpid(os.posix_spawnp('cat', ['cat'], {}, file_actions=[opened]), 0)\n", CHANGED, DATA, MADE,
    ),
    "what a program makes for a reader": Route(
        FILE + "subprocess.run(['cp', F, here / 'copy'])\n(here / 'copy').read_text()\n", CHANGED, DATA, MADE
    ),
    "times are set in vain": Route(TRY.format("os.utime(F)"), MADE, EXISTS),
    "permissions are set in vain": Route(TRY.format("os.chmod(F, 0o644)"), MADE, EXISTS),
    "cut in vain": Route(TRY.format("os.truncate(F, 9)"), MADE, EXISTS),
    "renamed in vain": Route(TRY.format("os.rename(F, here / 'no' / 'b')"), MADE, EXISTS),
    "removed in vain": Route(TRY.format("os.remove(F)"), MADE, EXISTS),
    "a folder is entered in vain": Route(TRY.format("os.chdir(here / 'd')"), folder, FOLDER),
    "a shell enters a folder in vain": Route(FILE + "os.system(f'cd {here}/d')\n", folder, FOLDER),
    "a folder is opened": Route(TRY.format("open(here / 'd')"), no_folder, FOLDER, folder),
    "a folder is opened by C": Route(
        FILE + "ctypes.CDLL(None).open(str(here / 'd').encode(), 0)\n", no_folder, FOLDER, folder
    ),
    "a program opens a folder": Route(FILE + "subprocess.run(['cat', here / 'd'])\n", no_folder, FOLDER, folder),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTES)
def test_the_inputs_change_with_it(name: str, tmp_path: Path) -> None:
    check_route(ROUTES[name], ObservedProject(tmp_path))


@pytest.mark.slow
def test_what_a_program_made_is_no_input_of_its_reader(tmp_path: Path) -> None:
    """Whether or not it was there before: otherwise, a build after an edit would record the old content."""
    project = ObservedProject(tmp_path)
    code = FILE + "subprocess.run(['cp', F, here / 'copy'])\nVALUE = (here / 'copy').read_text()\n"
    project.write({"kernel.py": code, "tiles.json": "1"})
    first = project.inputs()
    assert project.inputs().answers == first.answers
    assert not [name for name in first.names if "search/copy" in name]


@pytest.mark.slow
def test_a_seed_of_a_library_is_not_the_authors_draw(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "import sqlite3\nsqlite3.connect(':memory:').execute('select random()')\n"})
    project.inputs()


@pytest.mark.slow
def test_the_libraries_of_a_python_are_not_those_of_a_program(tmp_path: Path) -> None:
    """Its version counts; where it keeps its own library, and which extensions it loads at its end, do not."""
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": FILE + "subprocess.run([sys.executable, '-c', 'import json, sqlite3'])\n"})
    assert not [name for name in project.inputs().names if ".so" in name]
