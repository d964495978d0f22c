"""What native code and other processes read: the inputs change when, and only when, that changes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from tests.helpers.inputs.observed_project import ObservedProject
from tests.helpers.inputs.route import HERE, Route, Step, check_route, write

FILE = HERE + "F = here / 'tiles.json'\n"
C = (
    FILE
    + "import ctypes\nC = ctypes.CDLL(None)\nC.fopen.restype = ctypes.c_void_p\nC.getenv.restype = ctypes.c_char_p\n"
)
RUN = FILE + "import os, subprocess, sys\n"
MADE, CHANGED = write("tiles.json", "{}"), write("tiles.json", "[]")
DATA = {"file:search/tiles.json"}
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"]}


def git(*words: str) -> Step:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.fsync=none", *words]
    return lambda project: subprocess.run(command, cwd=project.search, check=True, capture_output=True, env=GIT)


def steps(*all_steps: Step) -> Step:
    return lambda project: [step(project) for step in all_steps]


def table(value: int) -> Step:
    def make(project: ObservedProject) -> None:
        with sqlite3.connect(project.search / "tiles.db") as connection:
            connection.executescript(f"drop table if exists t; create table t as select {value} as x")
        connection.close()

    return make


ROUTES = {
    "fopen by ctypes": Route(C + "C.fopen(str(F).encode(), b'r')\n", CHANGED, DATA, MADE),
    "fopen by ctypes, in vain": Route(C + "C.fopen(str(F).encode(), b'r')\n", CHANGED, DATA),
    "fopen in a thread": Route(
        C + "import threading as t\nx = t.Thread(target=C.fopen, args=(str(F).encode(), b'r'))\nx.start()\nx.join()\n",
        CHANGED, DATA, MADE,
    ),
    "getenv by ctypes": Route(
        C + "C.getenv(b'TILE')\n", lambda project: project.variables.update(TILE="64"), {"variable:TILE"}
    ),
    "access by ctypes": Route(C + "C.access(str(F).encode(), 0)\n", MADE, {"exists:search/tiles.json"}),
    "posix.environ": Route(
        "import posix\nposix.environ.get(b'TILE')\n",
        lambda project: project.variables.update(TILE="64"), {"variable:TILE"},
    ),
    "sqlite3": Route(
        HERE + "import sqlite3\nc = sqlite3.connect(here / 'tiles.db')\nc.execute('select * from t').fetchall()\n",
        table(2), {"file:search/tiles.db"}, table(1),
    ),
    "a descriptor of a folder": Route(
        FILE + "import os\nos.open('tiles.json', os.O_RDONLY, dir_fd=os.open(here, os.O_RDONLY))\n", CHANGED, DATA, MADE
    ),
    "an opener": Route(
        FILE + "import os\nd = os.open(here, os.O_RDONLY)\n"
        "open('tiles.json', opener=lambda path, flags: os.open(path, flags, dir_fd=d)).read()\n", CHANGED, DATA, MADE,
    ),
    "cat": Route(RUN + "subprocess.run(['cat', F])\n", CHANGED, DATA, MADE),
    "cat of nothing": Route(RUN + "subprocess.run(['cat', F])\n", CHANGED, DATA),
    "cat without an environment": Route(RUN + "subprocess.run(['cat', F], env={})\n", CHANGED, DATA, MADE),
    "cat in another folder": Route(RUN + "subprocess.run(['cat', 'tiles.json'], cwd=here)\n", CHANGED, DATA, MADE),
    "a shell": Route(RUN + "os.system(f'cat < {F}')\n", CHANGED, DATA, MADE),
    "a shell that tests": Route(RUN + "os.system(f'test -e {F}')\n", MADE, {"exists:search/tiles.json"}),
    "a shell's own shell": Route(
        RUN + "subprocess.run(f'(sh -c \"cat {F}\") | wc', shell=True)\n", CHANGED, DATA, MADE
    ),
    "popen of C": Route(C + "C.popen.restype = ctypes.c_void_p\nC.pclose.argtypes = [ctypes.c_void_p]\n"
                        "C.pclose(C.popen(f'cat {F}'.encode(), b'r'))\n", CHANGED, DATA, MADE),
    "posix_spawn": Route(
        RUN + "os.waitpid(os.posix_spawnp('cat', ['cat', str(F)], {}), 0)\n", CHANGED, DATA, MADE
    ),
    "a list by ls": Route(
        RUN + "subprocess.run(['ls', here / 'tiles'])\n", write("tiles/b", ""), {"folder:search/tiles"},
        write("tiles/a", ""),
    ),
    "git describe": Route(
        RUN + "subprocess.run(['git', 'describe', '--always'], cwd=here, check=True)\n",
        git("commit", "--allow-empty", "-m", "b"), {"file:search/.git/refs/heads/main"},
        steps(git("init", "-b", "main"), git("commit", "--allow-empty", "-m", "a")),
    ),
    "a fork": Route(
        RUN + "pid = os.fork()\nif not pid:\n    F.read_text()\n    os._exit(0)\nos.waitpid(pid, 0)\n",
        CHANGED, DATA, MADE,
    ),
    "a fork that imports": Route(
        RUN + "pid = os.fork()\nif not pid:\n    import tiles\n    os._exit(0)\nos.waitpid(pid, 0)\n",
        write("tiles.py", "x = 2\n"), {"file:search/tiles.py"}, write("tiles.py", "x = 1\n"),
    ),
    "a fork that asks for a variable": Route(
        RUN + "pid = os.fork()\nif not pid:\n    os.environ.get('TILE')\n    os._exit(0)\nos.waitpid(pid, 0)\n",
        lambda project: project.variables.update(TILE="64"), {"variable:TILE"},
    ),
    "a pool of processes": Route(
        FILE + "from concurrent.futures import ProcessPoolExecutor\n"
        "with ProcessPoolExecutor(1) as pool: pool.submit(F.read_text).result()\n", CHANGED, DATA, MADE,
    ),
    "a process that multiprocessing spawns": Route(
        FILE + "import multiprocessing\np = multiprocessing.get_context('spawn').Process(target=F.read_text)\n"
        "p.start()\np.join()\n", CHANGED, DATA, MADE,
    ),
    "a script": Route(
        RUN + "subprocess.run([sys.executable, here / 'script.py'], check=True)\n", CHANGED, DATA,
        steps(MADE, write("script.py", "import pathlib\n(pathlib.Path(__file__).parent / 'tiles.json').read_text()\n")),
    ),
    "a module of a script": Route(
        RUN + "subprocess.run([sys.executable, here / 'script.py'], check=True)\n", write("tiles.py", "x = 2\n"),
        {"file:search/tiles.py"}, steps(write("tiles.py", "x = 1\n"), write("script.py", "import sys\n"
        "sys.path.insert(0, __file__.rsplit('/', 1)[0])\nimport tiles\n")),
    ),
    "a script itself": Route(
        RUN + "subprocess.run([sys.executable, here / 'script.py'], check=True)\n", write("script.py", "x = 2\n"),
        {"file:search/script.py"}, write("script.py", "x = 1\n"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTES)
def test_the_inputs_change_with_it(name: str, tmp_path: Path) -> None:
    check_route(ROUTES[name], ObservedProject(tmp_path))


UNSTEADY = {
    "subprocess.run(['date'])": "clock",
    "subprocess.run([sys.executable, '-c', 'import time; time.time()'])": "clock",
    "subprocess.run([sys.executable, '-c', 'import random; random.random()'])": "randomness",
    "subprocess.run(['head', '-c1', '/dev/urandom'], stdout=-3)": "randomness",
    "subprocess.run(['uname', '-n'])": "host",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", UNSTEADY)
def test_what_a_program_finds_by_chance_is_reported_with_the_line_that_started_it(code: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": f"import subprocess, sys\n\n{code}\n"})
    _, unsteady = project.build()
    assert {(one.kind, one.line) for one in unsteady} == {(UNSTEADY[code], 3)}


@pytest.mark.slow
def test_a_static_program_is_reported(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": RUN + "subprocess.run([here / 'tool', F])\n", "tool.c": "int main(void) {}\n"})
    built = subprocess.run(["gcc", "-static", project.search / "tool.c", "-o", project.search / "tool"], check=False)
    if built.returncode:
        pytest.skip("gcc cannot link static programs here")
    _, unsteady = project.build()
    assert [(one.kind, one.what, one.line) for one in unsteady] == [("process", str(project.search / "tool"), 5)]


@pytest.mark.slow
def test_a_python_that_is_still_starting_when_the_kernel_is_imported_is_observed(tmp_path: Path) -> None:
    """As the helper that multiprocessing leaves running is, on a busy machine."""
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": RUN + "subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"})
    assert project.build()[1] == ()


@pytest.mark.slow
def test_a_static_program_that_stays_is_reported_and_holds_nothing(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    code = "#include <unistd.h>\nint main(void) { return sleep(30); }\n"
    project.write({"kernel.py": RUN + "subprocess.Popen([here / 'tool', F], stdout=-3, stderr=-3)\n", "tool.c": code})
    built = subprocess.run(["gcc", "-static", project.search / "tool.c", "-o", project.search / "tool"], check=False)
    if built.returncode:
        pytest.skip("gcc cannot link static programs here")
    start = time.monotonic()
    _, unsteady = project.build()
    assert [(one.kind, one.what, one.line) for one in unsteady] == [("process", str(project.search / "tool"), 5)]
    assert time.monotonic() - start < 20


@pytest.mark.slow
def test_a_program_in_go_is_reported(tmp_path: Path) -> None:
    """It calls the kernel itself. This one only has the mark of such a program."""
    project = ObservedProject(tmp_path)
    mark = 'const char mark[] = "\\xff Go buildinf:";\nint main(void) { return mark[0] == 0; }\n'
    project.write({"kernel.py": RUN + "subprocess.run([here / 'tool', F], check=True)\n", "tool.c": mark})
    subprocess.run(["gcc", project.search / "tool.c", "-o", project.search / "tool"], check=True)
    _, unsteady = project.build()
    assert [(one.kind, one.what, one.line) for one in unsteady] == [("process", str(project.search / "tool"), 5)]


@pytest.mark.slow
def test_a_program_that_closes_every_descriptor_is_observed(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    code = "import os\nos.closerange(0, 1000)\nopen({!r}).read()\n".format(str(project.search / "tiles.json"))
    project.write({"kernel.py": RUN + f"subprocess.run([sys.executable, '-c', {code!r}])\n", "tiles.json": "{}"})
    assert set(project.inputs().names) >= DATA


@pytest.mark.slow
def test_a_generator_and_what_it_wrote(tmp_path: Path) -> None:
    """What a program makes itself is no input; what it makes it of is."""
    project = ObservedProject(tmp_path)
    project.write(
        {
            "kernel.py": RUN + "subprocess.run('cat source.txt > made.txt && cat made.txt', shell=True, cwd=here)\n",
            "source.txt": "1",
        }
    )
    inputs = project.inputs()
    assert "file:search/source.txt" in inputs.names
    assert not [name for name in inputs.names if "made.txt" in name]
    assert project.inputs().answers == inputs.answers


@pytest.mark.slow
def test_the_library_is_not_in_the_environment_of_a_kernel(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "import os\nVALUE = sorted(os.environ)\n"})
    project.inputs()
    assert not [name for name in project.value if name.startswith(("LD_", "PRECAST_"))]


@pytest.mark.slow
def test_a_shell_has_the_environment_that_it_was_given(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write(
        {"kernel.py": "import subprocess\nVALUE = subprocess.check_output(['env'], env={'A': '1'}, text=True)\n"}
    )
    project.inputs()
    assert project.value == "A=1\n"


@pytest.mark.slow
def test_system_returns_the_status_of_the_shell(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "import os\nVALUE = [os.system('exit 3') >> 8, os.system('kill -9 $$')]\n"})
    project.inputs(("host",))  # the number of its process
    assert project.value == [3, 9]


@pytest.mark.slow
def test_a_program_that_the_compiler_starts_hides_no_later_one(tmp_path: Path) -> None:
    """What installed code starts is not the author's request; what the author's native code starts after it is."""
    project = ObservedProject(tmp_path)
    project.install("acme", "1.0", {"acme.py": "import subprocess\nsubprocess.run(['cat', '/etc/hosts'])\n"})
    project.write({"kernel.py": C + "import acme\nC.system(b'cat /etc/passwd')\n"})
    names = project.inputs().names
    assert "file:/etc/passwd" in names
    assert "file:/etc/hosts" not in names
