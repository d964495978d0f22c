"""A way in which a compilation may try to read something: the code, the states of the thing, and what declares it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.helpers.inputs.project import Project

Step = Callable[[Project], object]
HEAD = (
    "import os, subprocess, sys\nfrom pathlib import Path\nhere = Path(__file__).parent\nF = here / 'tiles.json'\n"
    "D = here / 'tiles'\n"
)
C = (
    "import ctypes, platform\nC = ctypes.CDLL(None)\nC.fopen.restype = ctypes.c_void_p\n"
    "C.fgetc.argtypes = [ctypes.c_void_p]\nC.getenv.restype = ctypes.c_char_p\nx86 = platform.machine() == 'x86_64'\n"
    "name, b = str(F).encode(), ctypes.create_string_buffer(4096)\n"
    "def text(file): return os.read(file, 99) if file >= 0 else file\n"
)


def write(name: str, content: str, folder: str = "search") -> Step:
    return lambda project: project.write({name: content}, getattr(project, folder))


def remove(name: str, folder: str = "search") -> Step:
    return lambda project: (getattr(project, folder) / name).unlink()


def install(name: str, version: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> Step:
    def step(project: Project) -> None:
        for old in project.site.glob(f"{name}-*.dist-info"):
            shutil.rmtree(old)
        project.install(name, version, files, requires=requires)

    return step


def steps(*all_steps: Step) -> Step:
    return lambda project: [step(project) for step in all_steps]


@dataclass(frozen=True)
class Route:
    """The code, the states of the thing before and after, and what declares it; ``refused`` is part of the error."""

    code: str
    before: Step
    after: Step
    declared: tuple[str, ...] = ()
    refused: str = ""


MADE, CHANGED, GONE = write("tiles.json", "1"), write("tiles.json", "22"), remove("tiles.json")
DATA = ("file:{search}/tiles.json",)
ONE, TWO = write("tiles/a", "1"), write("tiles/b", "2")
FOLDER = ("folder:{search}/tiles",)


def reading(code: str, refused: str = "files: [") -> Route:
    return Route(HEAD + code, MADE, CHANGED, DATA, refused)


def absent(code: str) -> Route:
    return reading(code, "")


def existing(code: str) -> Route:
    return Route(HEAD + code, MADE, GONE, DATA)


def listing(code: str, refused: str = "") -> Route:
    return Route(HEAD + code, ONE, TWO, FOLDER, refused)


def running(code: str, *programs: str) -> Route:
    return Route(HEAD + code, MADE, CHANGED, (*DATA, *(f"program:{name}" for name in programs)), "programs: [")


def with_programs(code: str) -> Route:
    return Route(HEAD + code, MADE, CHANGED, (*DATA, "program:sh", "program:cat"))


def database(value: int) -> Step:
    code = (
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.executescript('drop table if exists t; create table t"
    )
    code += " as select ' + sys.argv[2] + ' as x')\nc.close()\n"
    return lambda project: subprocess.run(
        [sys.executable, "-c", code, project.search / "tiles.json", str(value)], check=True
    )


def archive(text: str) -> Step:
    code = "import sys, zipfile\nzipfile.ZipFile(sys.argv[1], 'w').writestr('a', sys.argv[2])\n"
    return lambda project: subprocess.run([sys.executable, "-c", code, project.search / "tiles.json", text], check=True)


def linked(target: str) -> Step:
    def step(project: Project) -> None:
        (project.search / "link").unlink(missing_ok=True)
        (project.search / "link").symlink_to(target)

    return step
