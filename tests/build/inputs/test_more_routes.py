"""Further ways in which a compilation reads something: the inputs change when, and only when, that does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.inputs.observed_project import ObservedProject
from tests.helpers.inputs.route import HERE, Route, Step, check_route, write

FILE = HERE + "import os, subprocess, sys\nF = here / 'tiles.json'\n"
C = (
    FILE + "import ctypes\nC = ctypes.CDLL(None)\nC.fopen.restype = C.fts_open.restype = ctypes.c_void_p\n"
    "C.syscall.restype = ctypes.c_long\nb = ctypes.create_string_buffer(4096)\nname = str(F).encode()\n"
    "import platform\nx86 = platform.machine() == 'x86_64'\n"
)
MADE, CHANGED = write("tiles.json", "{}"), write("tiles.json", "[]")
DATA, EXISTS = {"file:search/tiles.json"}, {"exists:search/tiles.json"}
FOLDER, ONE, TWO = {"folder:search/tiles"}, write("tiles/a", ""), write("tiles/b", "")
SHELL_SET = {"variable:OMP_NUM_THREADS"}


def set_variable(project: ObservedProject) -> None:
    project.variables["OMP_NUM_THREADS"] = "3"


def link(target: str) -> Step:
    def make(project: ObservedProject) -> None:
        (project.search / "link").unlink(missing_ok=True)
        (project.search / "link").symlink_to(target)

    return make


def executable(mode: int) -> Step:
    def make(project: ObservedProject) -> None:
        project.write({"tool": ""})
        (project.search / "tool").chmod(mode)

    return make


def folder_instead(project: ObservedProject) -> None:
    (project.search / "tiles" / "a").unlink()
    (project.search / "tiles" / "a").mkdir()


def startup(value: int) -> Step:
    return lambda project: project.write({"startup.pth": f"import sys; sys.tile = {value}\n"}, project.site)


ROUTES = {
    "openat by its number": Route(C + "C.syscall(257 if x86 else 56, -100, name, 0, 0)\n", CHANGED, DATA, MADE),
    "openat2 by its number": Route(
        C + "C.syscall(437, -100, name, (ctypes.c_uint64 * 3)(), 24)\n", CHANGED, DATA, MADE
    ),
    "stat by its number": Route(C + "C.syscall(262 if x86 else 79, -100, name, b, 0)\n", CHANGED, DATA, MADE),
    "access by its number": Route(C + "C.syscall(269 if x86 else 48, -100, name, 0)\n", MADE, EXISTS),
    "a list by its number": Route(
        C + "C.syscall(217 if x86 else 61, os.open(here / 'tiles', 0), b, 4096)\n", TWO, FOLDER, ONE
    ),
    "execve by its number": Route(
        C + "pid = os.fork()\nif not pid:\n    words = (ctypes.c_char_p * 3)(b'cat', name, None)\n"
        "    C.syscall(59 if x86 else 221, b'/bin/cat', words, (ctypes.c_char_p * 1)(None))\nos.waitpid(pid, 0)\n",
        CHANGED, DATA, MADE,
    ),
    "fts": Route(
        C + "C.fts_read.argtypes = [ctypes.c_void_p]\n"
        "walk = C.fts_open((ctypes.c_char_p * 2)(str(here / 'tiles').encode(), None), 16, None)\n"
        "while C.fts_read(walk): pass\n", TWO, FOLDER, ONE,
    ),
    "nftw": Route(
        C + "visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, *[ctypes.c_void_p] * 3)(lambda *_: 0)\n"
        "C.nftw(str(here / 'tiles').encode(), visit, 9, 0)\n", TWO, FOLDER, ONE,
    ),
    "glob of C": Route(
        C + "C.glob(str(here / 'tiles' / '*').encode(), 0, None, (ctypes.c_size_t * 10)())\n", TWO, FOLDER, ONE
    ),
    "scandirat": Route(
        C + "C.scandirat(os.open(here, 0), b'tiles', ctypes.byref(ctypes.c_void_p()), None, None)\n", TWO, FOLDER, ONE
    ),
    "getdents64": Route(C + "C.getdents64(os.open(here / 'tiles', 0), b, 4096)\n", TWO, FOLDER, ONE),
    "realpath of C": Route(
        C + "C.realpath(str(here / 'link').encode(), b)\n", link("b"), {"link:search/link"}, link("tiles")
    ),
    "a link that is resolved": Route(HERE + "(here / 'link').resolve()\n", link("b"), {"link:search/link"}, link("a")),
    "a link in a path that is resolved": Route(
        HERE + "import os\nos.path.realpath(here / 'link' / 'x')\n", link("b"), {"link:search/link"}, link("a")
    ),
    "a folder's descriptor in a path": Route(
        C + "d = os.open(here, 0)\nC.fopen(f'/proc/self/fd/{d}/tiles.json'.encode(), b'r')\n", CHANGED, DATA, MADE
    ),
    "the working folder of a program in a path": Route(
        FILE + "subprocess.run(['cat', '/proc/self/cwd/tiles.json'], cwd=here)\n", CHANGED, DATA, MADE
    ),
    "checked, then read by C": Route(C + "F.is_file() and C.fopen(name, b'r')\n", CHANGED, DATA, MADE),
    "a line of nothing": Route(FILE + "import linecache\nlinecache.getline(str(F), 1)\n", MADE, EXISTS),
    "may be run": Route(
        FILE + "os.access(here / 'tool', os.X_OK)\n", executable(0o755), {"exists:search/tool"}, executable(0o644)
    ),
    "a shell tests whether it may be run": Route(
        FILE + "subprocess.run(f'test -x {here}/tool', shell=True)\n", executable(0o755), {"exists:search/tool"},
        executable(0o644),
    ),
    "looked up in a folder": Route(
        FILE + "import shutil\nshutil.which('tool', path=str(here))\n", executable(0o755), {"exists:search/tool"},
        executable(0o644),
    ),
    "which names are folders": Route(FILE + "list(os.walk(here / 'tiles'))\n", folder_instead, FOLDER, ONE),
    "a variable in a line of a shell": Route(
        FILE + "os.system('echo $OMP_NUM_THREADS')\n", set_variable, SHELL_SET
    ),
    "a variable in a script of a shell": Route(
        FILE + "subprocess.run(['sh', here / 'script'])\n", set_variable, SHELL_SET,
        write("script", "a=1\necho $a ${OMP_NUM_THREADS:-4}\n"),
    ),
    "a variable that is removed": Route(
        "import os\ntry: del os.environ['TILE']\nexcept KeyError: pass\n",
        lambda project: project.variables.update(TILE="1"), {"variable:TILE"},
    ),
    "the number of all variables": Route(
        "import os\nlen(os.environ)\n", lambda project: project.variables.update(ANY="1"), {"variables"}
    ),
    "code that Python runs when it starts": Route("", startup(2), {"python"}, startup(1)),
    "moved and back": Route(
        FILE + "os.rename(F, here / 'b')\n(here / 'b').read_text()\nos.rename(here / 'b', F)\n", CHANGED,
        {"file:search/tiles.json"}, MADE,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTES)
def test_the_inputs_change_with_it(name: str, tmp_path: Path) -> None:
    check_route(ROUTES[name], ObservedProject(tmp_path), everything="all" in name)


RELATIVE = {
    "open": "open('tiles.json').read()\n",
    "exists, then read": "from pathlib import Path\nif Path('tiles.json').exists(): Path('tiles.json').read_text()\n",
    "fopen": "import ctypes\nctypes.CDLL(None).fopen(b'tiles.json', b'r')\n",
    "cat": "import subprocess\nsubprocess.run(['cat', 'tiles.json'])\n",
    "a list": "import os\nos.listdir('.')\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RELATIVE)
def test_a_relative_path_depends_on_the_folder_of_the_build(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": RELATIVE[name]})
    for folder, files in (("one", ["tiles.json"]), ("two", ["tiles.json", "more"])):
        project.write(dict.fromkeys(files, folder), tmp_path / folder)
    monkeypatch.chdir(tmp_path / "one")
    inputs = project.inputs()
    assert project.changed(inputs) == ()
    monkeypatch.chdir(tmp_path / "two")
    assert {one.partition(":")[2].partition("/")[0] for one in project.changed(inputs)} == {"cwd"}


STEADY = {
    "a program in a given folder": "subprocess.run(['cat', 'tiles.json'], cwd=here)\n",
    "after a change of the folder": "os.chdir(here)\nopen('tiles.json').read()\n",
    "a descriptor of a folder": "os.open('tiles.json', os.O_RDONLY, dir_fd=os.open(here, os.O_RDONLY))\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STEADY)
def test_a_path_relative_to_a_given_folder_does_not(name: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": FILE + STEADY[name], "tiles.json": "{}"})
    names = project.inputs().names
    assert set(names) >= DATA and not [name for name in names if "cwd" in name]


REPORTED = {
    "C.syscall(318 if x86 else 278, b, 8, 0)": "randomness",
    "C.syscall(228 if x86 else 113, 0, b)": "clock",
    "C.syscall(425, 4, b)": "host",  # io_uring
    "C.sysinfo(b)": "host",
    "C.getpid()": "host",
    "C.getpwuid(0)": "host",
    "C.shm_open(b'/tiles', 0, 0)": "host",
    "C.timespec_get(b, 1)": "clock",
    "subprocess.run(['cat', '/proc/cpuinfo'])": "host",
    "subprocess.run(['ls', '/sys/class'])": "host",
    "subprocess.run(['whoami'])": "host",
    "subprocess.run(['bash', '-c', 'echo $RANDOM'])": "randomness",
    "subprocess.run('ulimit -n', shell=True)": "host",
    "import time; time.clock_gettime(time.CLOCK_REALTIME)": "clock",
    "F.stat().st_mtime": "clock",
    "os.fstat(0).st_ctime_ns": "clock",
    "os.stat(here).st_ino": "host",
    "import random; random.seed(1); random.seed(); random.random()": "randomness",
    "import random; random.getstate()": "randomness",
    "import numpy.random as r; r.rand()": "randomness",
    "import uuid; uuid.getnode()": "host",
    "import pwd; pwd.getpwnam('root')": "host",
    "os.sysconf('SC_PHYS_PAGES')": "host",
    "os.getxattr(here, 'user.x') if 0 else os.listxattr(here)": "host",
    "import shutil; shutil.disk_usage(here)": "host",
    "import socket; socket.socket(socket.AF_UNIX).connect_ex('/nowhere')": "network",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", REPORTED)
def test_what_no_key_covers_is_reported(code: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": f"{C}{code}\n", "tiles.json": "{}"})
    _, unsteady = project.build()
    assert {one.kind for one in unsteady} == {REPORTED[code]}, unsteady


@pytest.mark.slow
@pytest.mark.parametrize("call", ["clock_gettime(0, b)", "getrandom(b, 8, 0)", "sysconf(84)"])
def test_a_library_of_the_author_is_as_ctypes(call: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    code = "#include <sys/random.h>\n#include <time.h>\n#include <unistd.h>\n"
    code += f"void ask(void) {{ struct timespec b[9]; (void)b; (void)!{call}; }}\n"
    project.write({"ask.c": code, "kernel.py": C + "ctypes.CDLL(str(here / 'ask.so')).ask()\n"})
    source, library = project.search / "ask.c", project.search / "ask.so"
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True, env=dict(os.environ))
    _, unsteady = project.build()
    assert [one.what for one in unsteady] == [f"{call.partition('(')[0]} in ask.so"]
