"""Ways in which a kernel's module reads something, each with the edits that change what it finds."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HEAD = "import os, sys\nfrom pathlib import Path\nfrom adding import compile_add\nHERE = Path(__file__).parent\n\n\n"
Edit = Callable[[Path, random.Random], object]


@dataclass(frozen=True)
class Way:
    """The code of a module whose function ``make_NAME`` compiles what it finds, and a random edit of that."""

    code: str
    edit: Edit
    declared: str
    """The ``inputs:`` of its entry; its files are in the folder ``ways``."""


def written(name: str, form: str = "{}") -> Edit:
    """An edit that writes a number into a file."""
    return lambda folder, chances: (folder / name).write_text(form.format(chances.randrange(1, 5)))


def toggled(name: str) -> Edit:
    """An edit that makes a file, or removes it."""

    def edit(folder: Path, chances: random.Random) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink() if path.exists() else path.write_text("SIZE = 3\n")

    return edit


def populated(name: str) -> Edit:
    """An edit that gives a folder other files."""

    def edit(folder: Path, chances: random.Random) -> None:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
        for number in range(chances.randrange(0, 4)):
            (folder / name / f"{number}.json").write_text(str(chances.random()))

    return edit


def linked(name: str) -> Edit:
    """An edit that lets a link name another path, which need not exist."""

    def edit(folder: Path, chances: random.Random) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(str(chances.randrange(1, 5)))

    return edit


def stored(name: str) -> Edit:
    """An edit that writes a number into a database."""

    def edit(folder: Path, chances: random.Random) -> None:
        connection = sqlite3.connect(folder / name)
        with connection:
            connection.execute("drop table if exists t")
            connection.execute(f"create table t as select {chances.randrange(1, 5)} as x")
        connection.close()

    return edit


def permitted(name: str) -> Edit:
    """An edit that lets a file be run, or not."""

    def edit(folder: Path, chances: random.Random) -> None:
        (folder / name).touch()
        (folder / name).chmod(chances.choice([0o644, 0o755]))

    return edit


def sized(name: str) -> Edit:
    """An edit that gives a file another size."""
    return lambda folder, chances: (folder / name).write_bytes(bytes(chances.randrange(1, 5)))


WAYS = {
    "pool": Way(
        "from concurrent.futures import ThreadPoolExecutor\ndef make_pool(n: int):\n"
        "    with ThreadPoolExecutor(2) as pool:\n        (text,) = pool.map(Path.read_text, [HERE / 'pool.txt'])\n"
        "    return compile_add(int(text) + n)\n",
        written("pool.txt"),
        "files: ways/pool.txt",
    ),
    "to_thread": Way(
        "import asyncio, json\nFOUND = json.loads(asyncio.run(asyncio.to_thread((HERE / 'thread.json').read_text)))\n"
        "def make_to_thread(n: int):\n    return compile_add(FOUND[0] + n)\n",
        written("thread.json", "[{}]"),
        "files: ways/thread.json",
    ),
    "exists": Way(
        "def make_exists(n: int):\n    return compile_add(3 * (HERE / 'flag').exists() + n)\n",
        toggled("flag"),
        "files: ways/flag",
    ),
    "names": Way(
        "def make_names(n: int):\n    return compile_add(len(os.listdir(HERE / 'names')) + n)\n",
        populated("names"),
        "files: ways/names",
    ),
    "glob": Way(
        "def make_glob(n: int):\n    return compile_add(len(list(HERE.glob('globbed/*.json'))) + n)\n",
        populated("globbed"),
        "files: ways/globbed",
    ),
    "link": Way(
        "def make_link(n: int):\n    return compile_add(int(os.readlink(HERE / 'link')) + n)\n",
        linked("link"),
        "files: ways/link",
    ),
    "size": Way(
        "def make_size(n: int):\n    return compile_add((HERE / 'sized').stat().st_size + n)\n",
        sized("sized"),
        "files: ways/sized",
    ),
    "touched": Way(
        "def make_touched(n: int):\n    (HERE / 'touched.txt').touch()\n"
        "    return compile_add(int((HERE / 'touched.txt').read_text()) + n)\n",
        written("touched.txt"),
        "files: ways/touched.txt",
    ),
    "exclusive": Way(
        "def make_exclusive(n: int):\n"
        "    try:\n        open(HERE / 'exclusive.txt', 'x')\n    except FileExistsError:\n"
        "        return compile_add(int((HERE / 'exclusive.txt').read_text()) + n)\n",
        written("exclusive.txt"),
        "files: ways/exclusive.txt",
    ),
    "late": Way(
        "sys.path.insert(0, str(HERE / 'late'))\n"
        "try:\n    from late_module import SIZE\nexcept ImportError:\n    SIZE = 1\n"
        "def make_late(n: int):\n    return compile_add(SIZE + n)\n",
        toggled("late/late_module.py"),
        "files: ways/late",
    ),
    "default": Way(
        "DEFAULT = int((HERE / 'default.txt').read_text())\n"
        "def make_default(n: int, extra: int = DEFAULT):\n    return compile_add(extra + n)\n",
        written("default.txt"),
        "files: ways/default.txt",
    ),
    "choices": Way(
        "from typing import Literal\nCHOICES = tuple(range(int((HERE / 'choices.txt').read_text()) + 2))\n"
        "def make_choices(n: Literal[CHOICES]):\n    return compile_add(len(CHOICES) + n)\n",
        written("choices.txt"),
        "files: ways/choices.txt",
    ),
    "fopen": Way(
        "import ctypes\nC = ctypes.CDLL(None)\nC.fopen.restype = ctypes.c_void_p\n"
        "C.fgetc.argtypes = [ctypes.c_void_p]\ndef make_fopen(n: int):\n    assert (HERE / 'fopen.txt').exists()\n"
        "    return compile_add(C.fgetc(C.fopen(str(HERE / 'fopen.txt').encode(), b'r')) + n)\n",
        written("fopen.txt"),
        "files: ways/fopen.txt",
    ),
    "sqlite": Way(
        "import sqlite3\ndef make_sqlite(n: int):\n"
        "    return compile_add(sqlite3.connect(HERE / 'tiles.db').execute('select x from t').fetchone()[0] + n)\n",
        stored("tiles.db"),
        "files: ways/tiles.db",
    ),
    "cat": Way(
        "import subprocess\ndef make_cat(n: int):\n"
        "    return compile_add(int(subprocess.check_output(['cat', HERE / 'cat.txt'])) + n)\n",
        written("cat.txt"),
        "files: ways/cat.txt, programs: cat",
    ),
    "shell": Way(
        "def make_shell(n: int):\n"
        "    return compile_add(int(os.popen(f'cd {HERE}; ls listed | wc -l; ').read()) + n)\n",
        populated("listed"),
        "files: ways/listed, programs: [sh, ls, wc]",
    ),
    "fork": Way(
        "from concurrent.futures import ProcessPoolExecutor\ndef make_fork(n: int):\n"
        "    with ProcessPoolExecutor(1) as pool:\n"
        "        return compile_add(int(pool.submit((HERE / 'fork.txt').read_text).result()) + n)\n",
        written("fork.txt"),
        "files: ways/fork.txt",
    ),
    "descriptor": Way(
        "def make_descriptor(n: int):\n    folder = os.open(HERE, os.O_RDONLY)\n"
        "    return compile_add(int(os.read(os.open('descriptor.txt', os.O_RDONLY, dir_fd=folder), 9)) + n)\n",
        written("descriptor.txt"),
        "files: ways/descriptor.txt",
    ),
    "mapped": Way(
        "import numpy\ndef make_mapped(n: int):\n"
        "    return compile_add(int(numpy.memmap(HERE / 'mapped', mode='r')[0]) + n)\n",
        written("mapped"),
        "files: ways/mapped",
    ),
    "script": Way(
        "import subprocess\ndef make_script(n: int):\n"
        "    return compile_add(int(subprocess.check_output([sys.executable, HERE / 'generator.py'])) + n)\n",
        written("generator.py", "print({})\n"),
        "files: ways/generator.py",
    ),
    "spawned": Way(
        "def make_spawned(n: int):\n    into = str(HERE / 'spawned.out')\n"
        "    words = ['cp', str(HERE / 'spawned.txt'), into]\n"
        "    assert os.waitpid(os.posix_spawnp('cp', words, {}), 0)[1] == 0\n"
        "    return compile_add(int(Path(into).read_text()) + n)\n",
        written("spawned.txt"),
        "files: ways/spawned.txt, programs: cp",
    ),
    "walked": Way(
        "import subprocess\ndef make_walked(n: int):\n"
        "    return compile_add(len(subprocess.check_output(['find', HERE / 'walked', '-type', 'f']).split()) + n)\n",
        populated("walked"),
        "files: ways/walked, programs: find",
    ),
    "resolved": Way(
        "def make_resolved(n: int):\n    return compile_add(int((HERE / 'current').resolve().name) + n)\n",
        linked("current"),
        "files: ways/current",
    ),
    "program": Way(
        "def make_program(n: int):\n    return compile_add(5 * os.access(HERE / 'tool', os.X_OK) + n)\n",
        permitted("tool"),
        "files: ways/tool",
    ),
    "supports": Way(
        "from precast.kernels import kernel\nMOST = int((HERE / 'most.txt').read_text())\n"
        "def supports(config, target):\n    return 'too large' if config['n'] > MOST else None\n"
        "@kernel(op='user.make_supports', supports=supports)\ndef make_supports(n: int):\n    return compile_add(n)\n",
        written("most.txt"),
        "files: ways/most.txt",
    ),
    "asked": Way(
        "from precast.kernels import kernel\n"
        "def supports(config, target):\n"
        "    return 'not now' if (HERE / 'refused').exists() and config['n'] > 1 else None\n"
        "@kernel(op='user.make_asked', supports=supports)\ndef make_asked(n: int):\n    return compile_add(n)\n",
        toggled("refused"),
        "files: ways/refused",
    ),
}
VALUES = {name: [1, 2, 3] if name == "supports" else [1, 2] if name == "asked" else [1] for name in WAYS}
