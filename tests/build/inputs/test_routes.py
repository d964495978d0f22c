"""The ways in which a compilation may try to read something. Each is one of these:

- exact: what is read is an input, which changes when, and only when, it does;
- refused: an error names the line and what declares it; when that is declared, it is exact;
- absent: the thing is not there, so that the result is the same whatever it is; when it is declared, it is exact;
- found by a second compilation, which differs.

The kernel's module of a route sets ``VALUE``, which stands for what is compiled.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from precast.build.errors import ChangedInputError
from tests.helpers.inputs.project import Project, Server, serving

Step = Callable[[Project], object]
FAST = ("read_text", "exists", "a variable", "a program", "time.time", "an import", "vendored packages")

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


READ = {
    "read_text": reading("VALUE = F.read_text()"),
    "open": reading("VALUE = open(F).read()"),
    "os.open": reading("VALUE = os.read(os.open(F, os.O_RDONLY), 9)"),
    "io.FileIO": reading("import io\nVALUE = io.FileIO(F).read()"),
    "io.open_code": reading("import io\nVALUE = io.open_code(str(F)).read()"),
    "json": reading("import json\nVALUE = json.load(F.open())"),
    "json of a binary file": reading("import json\nwith open(F, 'rb') as file: VALUE = json.load(file)"),
    "linecache": absent("import linecache\nVALUE = linecache.getline(str(F), 1)"),
    "fileinput": reading("import fileinput\nVALUE = list(fileinput.input(F))"),
    "mmap": reading("import mmap\nVALUE = mmap.mmap((f := F.open('rb')).fileno(), 0, prot=mmap.PROT_READ)[:]"),
    "numpy.fromfile": reading("import numpy\nVALUE = numpy.fromfile(F, 'u1')"),
    "numpy.memmap": reading("import numpy\nVALUE = bytes(numpy.memmap(F, mode='r'))"),
    "runpy": Route(
        HEAD + "import runpy\nVALUE = runpy.run_path(str(here / 't.txt'))['x']", write("t.txt", "x = 1"),
        write("t.txt", "x = 2"), ("file:{search}/t.txt",), "files: [",
    ),
    "exec": reading("exec('VALUE = ' + open(F).read())"),
    "pkgutil": reading("import pkgutil\nVALUE = pkgutil.get_data('kernel', 'tiles.json')", ""),
    "shutil.copy": reading("import shutil\nshutil.copy(F, '/tmp/copy')\nVALUE = open('/tmp/copy').read()"),
    "a hard link": reading("os.link(F, '/tmp/link')\nVALUE = open('/tmp/link').read()"),
    "a symbolic link": reading("os.symlink(F, '/tmp/link')\nVALUE = open('/tmp/link').read()"),
    "sqlite3": replace(
        reading("import sqlite3\nVALUE = sqlite3.connect(f'file:{F}?mode=ro&immutable=1', uri=True)"
                ".execute('select x from t').fetchone()", ""), before=database(1), after=database(2)),
    "a zip file": replace(
        reading("import zipfile\nVALUE = zipfile.ZipFile(F).read('a')"), before=archive("1"), after=archive("2")),
    "a pool of threads": reading(
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool:\n"
        "    VALUE = list(pool.map(Path.read_text, [F]))"),
    "a thread": absent(
        "import threading\nVALUE = []\nt = threading.Thread(target=lambda: VALUE.append(F.read_text()))\n"
        "t.start()\nt.join()"),
    "asyncio": reading("import asyncio\nVALUE = asyncio.run(asyncio.to_thread(F.read_text))"),
    "a fork": absent(
        "r, w = os.pipe()\nif not os.fork():\n    try: os.write(w, F.read_bytes())\n    finally: os._exit(0)\n"
        "os.close(w)\nVALUE = os.read(r, 9)"),
    "a pool of processes": reading(
        "from concurrent.futures import ProcessPoolExecutor as P\nimport multiprocessing as m\n"
        "with P(1, m.get_context('fork')) as pool: VALUE = pool.submit(F.read_text).result()", "files: ["),
    "a descriptor of a folder": reading(
        "VALUE = os.read(os.open('tiles.json', os.O_RDONLY, dir_fd=os.open(here, os.O_RDONLY)), 9)"),
    "an opener": reading(
        "d = os.open(here, os.O_RDONLY)\n"
        "VALUE = open('tiles.json', opener=lambda p, f: os.open(p, f, dir_fd=d)).read()"),
    "a path by a descriptor": reading("d = os.open(here, os.O_RDONLY)\n"
        "VALUE = open(f'/proc/self/fd/{d}/tiles.json').read()"),
    "after a change of the folder": reading("os.chdir(here)\nVALUE = open('tiles.json').read()"),
    "another interpreter": Route(
        "try: import _interpreters as i\nexcept ImportError: import _xxsubinterpreters as i\nVALUE = i.create()",
        MADE, CHANGED, (), "starts another interpreter in its process"),
    "fopen": absent(C + "f = C.fopen(name, b'r')\nVALUE = f and C.fgetc(f)"),
    "fopen in a thread": absent(
        C + "import threading\nVALUE = []\n"
        "t = threading.Thread(target=lambda: VALUE.append((f := C.fopen(name, b'r')) and C.fgetc(f)))\n"
        "t.start()\nt.join()"),
    "open of C": absent(C + "VALUE = text(C.open(name, 0))"),
    "openat by its number": absent(C + "VALUE = text(C.syscall(257 if x86 else 56, -100, name, 0, 0))"),
    "openat2 by its number": absent(C + "VALUE = text(C.syscall(437, -100, name, (ctypes.c_uint64 * 3)(), 24))"),
    "a C library by its name": absent(C.replace("CDLL(None)", "CDLL('libc.so.6')") + "VALUE = text(C.open(name, 0))"),
    "it is touched, then read": absent("F.touch()\nVALUE = F.read_text()"),
    "it is appended to, then read": absent("open(F, 'a').close()\nVALUE = F.read_text()"),
    "made if it is absent": absent(
        "try: open(F, 'x').close()\nexcept FileExistsError: pass\nVALUE = F.read_text()"),
    "if it can be read": absent("try: VALUE = F.read_text()\nexcept OSError: VALUE = 0"),
    "by a script": reading(
        "VALUE = subprocess.run([sys.executable, '-c', f'print(open({str(F)!r}).read())'], capture_output=True).stdout",
        ""),
    "by a spawned process": reading(
        "code = f'open(\"/tmp/o\", \"w\").write(open({str(F)!r}).read())'\n"
        "os.waitpid(os.posix_spawn(sys.executable, ['python', '-c', code], {}), 0)\n"
        "VALUE = os.path.exists('/tmp/o') and open('/tmp/o').read()", ""),
    "cat": running("VALUE = subprocess.run(['cat', F], capture_output=True).stdout", "cat"),
    "cat without an environment": running("VALUE = subprocess.run(['/bin/cat', F], capture_output=True, env={}).stdout",
                                          "cat"),
    "a shell": running("VALUE = subprocess.run(f'cat < {F}', shell=True, capture_output=True).stdout", "sh", "cat"),
    "os.popen": running("VALUE = os.popen(f'cat {F}').read()", "sh", "cat"),
    "os.system": running("os.system(f'cat {F} > /tmp/o')\nVALUE = open('/tmp/o').read()", "sh", "cat"),
    "execv in a fork": with_programs(
        "r, w = os.pipe()\nif not os.fork():\n    os.dup2(w, 1)\n    try: os.execv('/bin/cat', ['cat', str(F)])\n"
        "    finally: os._exit(0)\nos.close(w)\nVALUE = os.read(r, 9)"),
    "popen of C": with_programs(
        C + "C.popen.restype = ctypes.c_void_p\nC.fgetc.argtypes = [ctypes.c_void_p]\n"
        "VALUE = C.fgetc(C.popen(f'cat {F}'.encode(), b'r'))"),
    "its size": replace(reading("VALUE = F.stat().st_size"), refused="files: ["),
    "os.path.getsize": replace(reading("VALUE = os.path.getsize(F)"), refused="files: ["),
    "stat by its number": absent(C + "VALUE = (C.syscall(262 if x86 else 79, -100, name, b, 0), b.raw[48:56])"),
    "exists": existing("VALUE = F.exists()"),
    "os.path.exists": existing("VALUE = os.path.exists(F)"),
    "is_file": existing("VALUE = F.is_file()"),
    "os.path.isfile": existing("VALUE = os.path.isfile(F)"),
    "os.path.lexists": existing("VALUE = os.path.lexists(F)"),
    "os.access": existing("VALUE = os.access(F, os.R_OK)"),
    "access of C": existing(C + "VALUE = C.access(name, 0)"),
    "access by its number": existing(C + "VALUE = C.syscall(269 if x86 else 48, -100, name, 0)"),
    "existence in a thread": existing(
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool:\n"
        "    VALUE = list(pool.map(Path.exists, [F]))"),
    "opened in vain": existing("try: VALUE = len(open(F).read())\nexcept OSError: VALUE = -1"),
    "times are set in vain": existing("try: VALUE = os.utime(F)\nexcept OSError: VALUE = 1"),
    "removed in vain": existing("try: VALUE = os.chmod(F, 0o644)\nexcept OSError: VALUE = 1"),
    "a program tests it": Route(
        HEAD + "VALUE = subprocess.run(['test', '-e', F]).returncode", MADE, GONE, (*DATA, "program:test"),
        "programs: [test]"),
    "listdir": listing("VALUE = os.listdir(D)", "files: ["),
    "scandir": listing("VALUE = sorted(e.name for e in os.scandir(D))", "files: ["),
    "iterdir": listing("VALUE = sorted(D.iterdir())", "files: ["),
    "glob": listing("VALUE = sorted(D.glob('*'))"),
    "glob.glob": listing("import glob\nVALUE = sorted(glob.glob(f'{D}/*'))"),
    "walk": listing("VALUE = sorted(map(str, os.walk(D)))"),
    "a list of the kernel's own folder": Route(HEAD + "VALUE = sorted(os.listdir(here))", ONE, TWO),
    "glob of C": listing(C + "n = (ctypes.c_size_t * 10)()\nVALUE = (C.glob(f'{D}/*'.encode(), 0, None, n), n[0])"),
    "getdents by its number": listing(
        C + "VALUE = C.syscall(217 if x86 else 61, C.open(str(D).encode(), 0), b, 4096)"),
    "ls": Route(HEAD + "VALUE = subprocess.run(['ls', D], capture_output=True).stdout", ONE, TWO,
                (*FOLDER, "program:ls"), "programs: [ls]"),
    "find": Route(HEAD + "VALUE = subprocess.run(['find', D], capture_output=True).stdout", ONE, TWO,
                  (*FOLDER, "program:find"), "programs: [find]"),
    "a link": Route(HEAD + "VALUE = os.readlink(here / 'link')", linked("a"), linked("b"), (), "files: ["),
    "a link that is resolved": Route(HEAD + "VALUE = (here / 'link').resolve().name", linked("a"), linked("b")),
    "a file outside": Route(HEAD + "VALUE = open(here / '../outside/x').read()", write("x", "1", "outside"),
                            write("x", "2", "outside"), ("file:{outside}/x",), "files: ["),
    "a folder outside": Route(HEAD + "VALUE = sorted(os.listdir(here / '../outside'))", write("x", "1", "outside"),
                              write("y", "2", "outside"), ("folder:{outside}",), "files: ["),
    "the system's settings": Route(HEAD + "VALUE = open('/etc/os-release').read()", MADE, CHANGED,
                                   (), "files: [/etc/os-release]"),
    "the user's settings": Route(HEAD + "VALUE = open(Path.home() / '.config/x').read()",
        MADE, CHANGED, (), "files: ["),
    "a database of users": Route(HEAD + "VALUE = open('/etc/passwd').read()",
        MADE, CHANGED, (), "files: [/etc/passwd]"),
    "a program": Route(HEAD + "VALUE = subprocess.run(['git', '--version']).stdout", MADE, CHANGED, (),
                       "programs: [git]"),
    "a program by C": Route(HEAD + C + "VALUE = C.system(b'git --version')", MADE, CHANGED),
    "a program that is looked up": Route(HEAD + "import shutil\nVALUE = shutil.which('git')", MADE, CHANGED),
    "a compiler": Route(HEAD + "VALUE = subprocess.run(['gcc', '--version']).stdout",
        MADE, CHANGED, (), "programs: [gcc]"),
    "a library by its path": Route(
        HEAD + "import ctypes\n"
        "VALUE = ctypes.CDLL(str(here / 'x.so')).tile()", write("x.so", "1"), write("x.so", "2"), (),
        "files: ["),
    "the network": Route(HEAD + "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)", MADE, CHANGED, (),
                         "uses the network"),
    "a name of a machine": Route(HEAD + "import socket\nsocket.getaddrinfo('example.org', 80)", MADE, CHANGED, (),
                                 "uses the network"),
    "the network by C": Route(
        HEAD + C + "s = C.socket(2, 1, 0)\naddress = bytes([2, 0, 0, 80, 192, 0, 2, 1]) + bytes(8)\n"
        "VALUE = C.connect(s, address, 16)", MADE, CHANGED),
    "an import by a computed name": Route(
        HEAD + "import importlib\nVALUE = importlib.import_module('til' + 'es').x", write("tiles.py", "x = 1"),
        write("tiles.py", "x = 2"), ("file:{search}/tiles.py",), "ModuleNotFoundError"),
    "a module in a folder that the code adds": Route(
        HEAD + "sys.path.insert(0, str(here / 'vendor'))\nimport acme\n"
        "VALUE = acme.x", write("vendor/acme.py", "x = 1"),
        write("vendor/acme.py", "x = 2"), ("folder:{search}/vendor",), "ModuleNotFoundError"),
    "a module by its path": Route(
        HEAD + "import importlib.util as u\ns = u.spec_from_file_location('a', here / 'a.py')\n"
        "m = u.module_from_spec(s)\n"
        "s.loader.exec_module(m)\nVALUE = m.x", write("a.py", "x = 1"), write("a.py", "x = 2"), ("file:{search}/a.py",),
        "files: ["),
    "a resource of a package": Route(
        HEAD + "import pk, importlib.resources as r\nVALUE = r.files('pk').joinpath('t').read_text()",
        steps(write("pk/__init__.py", ""),
        write("pk/t", "1")), write("pk/t", "2"), ("file:{search}/pk/t",), "files: ["),
    "other code's text": Route(HEAD + "VALUE = (here / 'other.py').read_text()", write("other.py", "1"),
                               write("other.py", "2"), ("file:{search}/other.py",), "files: ["),
    "a distribution by its name": Route(
        HEAD + "import importlib.metadata as m\n"
        "VALUE = m.version('ac' + 'me')", install("acme", "1.0", {"acme.py": ""}),
        install("acme", "1.1", {"acme.py": ""}), ("distribution:acme",), "PackageNotFoundError"),
    "entry points of plug-ins": Route(
        HEAD + "import importlib.metadata as m\nVALUE = sorted(map(str, m.entry_points(group='tiles')))",
        install("acme", "1.0", {"acme.py": "", "acme-1.0.dist-info/entry_points.txt": "[tiles]\na = acme:a\n"}),
        install("acme", "1.0", {"acme.py": "", "acme-1.0.dist-info/entry_points.txt": "[tiles]\na = acme:b\n"}),
        ("distribution:acme",)),
    "the names of installed distributions": Route(
        HEAD + "import importlib.metadata as m\nVALUE = sorted(m.packages_distributions())",
        install("acme", "1.0", {"acme.py": ""}), install("more", "1.0", {"more.py": ""})),
    "files of a distribution that is not imported": Route(
        HEAD + "import site\nVALUE = [os.path.exists(f'{f}/acme') for f in sys.path if 'venv/site' in f]",
        install("more", "1.0", {"more.py": ""}), install("acme", "1.0", {"acme/__init__.py": ""})),
}  # fmt: skip

_VENDOR = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '_vendor'))\nimport backports\n"
EXACT = {
    "an import": Route("import tiles\nVALUE = tiles.x", write("tiles.py", "x = 1"), write("tiles.py", "x = 2")),
    "an import in a function": Route(
        "def f():\n    import tiles\n    return tiles.x\n"
        "VALUE = f()", write("tiles.py", "x = 1"), write("tiles.py", "x = 2")
    ),
    "an import by a text": Route(
        "import importlib\nVALUE = importlib.import_module('tiles').x",
        write("tiles.py", "x = 1"),
        write("tiles.py", "x = 2"),
    ),
    "import by __import__": Route(
        "VALUE = __import__('tiles').x", write("tiles.py", "x = 1"), write("tiles.py", "x = 2")
    ),
    "a star": Route(
        "from pk import *\nVALUE = tiles.x",
        steps(write("pk/__init__.py", "__all__ = ['tiles']"), write("pk/tiles.py", "x = 1")),
        write("pk/tiles.py", "x = 2"),
    ),
    "a package": Route(
        "from pk.deep import tiles\nVALUE = tiles.x",
        steps(write("pk/__init__.py", ""), write("pk/deep/__init__.py", ""), write("pk/deep/tiles.py", "x = 1")),
        write("pk/deep/tiles.py", "x = 2"),
    ),
    "a namespace package": Route(
        "import spaces.one\nVALUE = spaces.one.x", write("spaces/one.py", "x = 1"), write("spaces/one.py", "x = 2")
    ),
    "a helper named like a standard module": Route(
        "import colorsys\nVALUE = getattr(colorsys, 'x', 0)", write("unread", ""), write("colorsys.py", "x = 2")
    ),
    "an import that failed": Route(
        "try:\n    import fast\n    VALUE = 1\nexcept ImportError:\n    VALUE = 0",
        write("unread", ""),
        write("fast.py", ""),
    ),
    "a search for a module": Route(
        "import importlib.util\nVALUE = importlib.util.find_spec('fast') is None\ndef f(): import fast",
        write("unread", ""),
        write("fast.py", ""),
    ),
    "an import that raised": Route(
        "try: import broken\nexcept RuntimeError as error: VALUE = str(error)",
        write("broken.py", "raise RuntimeError('1')"),
        write("broken.py", "raise RuntimeError('2')"),
    ),
    "an installed package": Route(
        "import acme\nVALUE = acme.x",
        install("acme", "1.0", {"acme/__init__.py": "x = 1"}),
        install("acme", "1.1", {"acme/__init__.py": "x = 2"}),
    ),
    "an installed package edited in place": Route(
        "import acme\nVALUE = acme.x",
        install("acme", "1.0", {"acme/__init__.py": "x = 1"}),
        write("acme/__init__.py", "x = 2", "site"),
    ),
    "data of an installed package": Route(
        "import acme, os\nVALUE = open(os.path.dirname(acme.__file__) + '/t').read()",
        install("acme", "1.0", {"acme/__init__.py": "", "acme/t": "1"}),
        write("acme/t", "2", "site"),
    ),
    "vendored packages": Route(
        "import acme, backports\nVALUE = backports.x",
        install("acme", "1.0", {"acme/__init__.py": _VENDOR, "acme/_vendor/backports/__init__.py": "x = 1"}),
        write("acme/_vendor/backports/__init__.py", "x = 2", "site"),
    ),
    "a file put into an installed package": Route(
        "import acme, os\nVALUE = os.listdir(os.path.dirname(acme.__file__))",
        install("acme", "1.0", {"acme/__init__.py": ""}),
        write("acme/new", "2", "site"),
    ),
    "a file put into site-packages": Route(
        "import loose\nVALUE = loose.x", write("loose.py", "x = 1", "site"), write("loose.py", "x = 2", "site")
    ),
    "what an installed package requires": Route(
        "import outer\nVALUE = outer.x",
        steps(
            install("outer", "1.0", {"outer.py": "from inner import x"}, ("inner>=1",)),
            install("inner", "1.0", {"inner/__init__.py": "x = 1"}),
        ),
        install("inner", "1.1", {"inner/__init__.py": "x = 2"}),
    ),
    "what an extra of an installed package requires": Route(
        "import outer\nVALUE = outer.x",
        steps(
            install("outer", "1.0", {"outer.py": "from inner import x"}, ("middle[fast]",)),
            install("middle", "1.0", {"middle.py": ""}, ("inner; extra == 'fast'",)),
            install("inner", "1.0", {"inner/__init__.py": "x = 1"}),
        ),
        install("inner", "1.1", {"inner/__init__.py": "x = 2"}),
    ),
    "a version": Route(
        "import acme, importlib.metadata as m\nVALUE = m.version('acme')",
        install("acme", "1.0", {"acme.py": ""}),
        install("acme", "1.1", {"acme.py": ""}),
    ),
    "the kernel's own text": Route("VALUE = open(__file__).read()\n"
        "", write("kernel.py", "VALUE = open(__file__).read()\n#1"),
                                   write("kernel.py", "VALUE = open(__file__).read()\n#2")),
}  # fmt: skip

ALWAYS_THE_SAME = {
    "a variable": "VALUE = os.environ.get('PRECAST_ROUTE')",
    "a variable by C": C + "VALUE = C.getenv(b'PRECAST_ROUTE')",
    "a variable by posix": "import posix\nVALUE = posix.environ.get(b'PRECAST_ROUTE')",
    "all variables": "VALUE = sorted(os.environ)",
    "the number of variables": "VALUE = len(os.environ)",
    "variables of the process": "VALUE = Path('/proc/self/environ').read_bytes().count(b'PRECAST_ROUTE')",
    "variables of a Python": (
        "code = 'import os; print(dict(os.environ))'\nVALUE = subprocess.check_output([sys.executable, '-c', code])"
    ),
    "the search path of programs": "VALUE = os.environ['PATH']",
    "the user's name": "import getpass\nVALUE = getpass.getuser()",
    "the user's home": "VALUE = os.path.expanduser('~')",
    "the user's settings folder": "VALUE = os.environ.get('XDG_CONFIG_HOME')",
    "the host's name": "import socket\nVALUE = (socket.gethostname(), os.uname().nodename)",
    "the working folder": "VALUE = os.getcwd()",
    "the temporary folder": "import tempfile\nVALUE = (tempfile.gettempdir(), os.listdir('/tmp'))",
    "the umask": "VALUE = os.umask(0)",
    "the processor": "VALUE = open('/proc/cpuinfo').read()",
    "the memory": "VALUE = open('/proc/meminfo').read()",
    "the load": "VALUE = open('/proc/loadavg').read()",
    "the time since the start": "VALUE = open('/proc/uptime').read()",
    "the devices": "VALUE = (os.listdir('/sys'), sorted(os.listdir('/dev')))",
    "shared memory": "VALUE = os.listdir('/dev/shm')",
    "the kernel's time stamps": "VALUE = os.stat(__file__).st_mtime",
    "interfaces of the network": "import socket\nVALUE = socket.if_nameindex()",
    "the root": "VALUE = sorted(n for n in os.listdir('/') if n not in ('lib32', 'root', 'work'))",
}
TWICE = {
    "time.time": "import time\nVALUE = time.time()",
    "time.time_ns": "from time import time_ns\nVALUE = time_ns()",
    "time.localtime": "import time\nVALUE = time.clock_gettime_ns(0)",
    "datetime": "import datetime\nVALUE = datetime.datetime.now()",
    "perf_counter": "import time\nVALUE = time.perf_counter()",
    "monotonic": "import time\nVALUE = time.monotonic_ns()",
    "the clock by C": C + "C.clock_gettime(0, b)\nVALUE = b.raw[:16]",
    "the clock by its number": C + "C.syscall(228 if x86 else 113, 0, b)\nVALUE = b.raw[:16]",
    "SQLite's clock": "import sqlite3\n"
    "VALUE = sqlite3.connect(':memory:').execute(\"select strftime('%f')\").fetchone()",
    "numpy's clock": "import numpy, time\nVALUE = numpy.datetime64('now', 'ns'), time.time_ns()",
    "urandom": "VALUE = os.urandom(8)",
    "/dev/urandom": "VALUE = open('/dev/urandom', 'rb').read(8)",
    "random": "import random\nVALUE = random.random()",
    "a new generator": "import random\nVALUE = random.Random().random()",
    "secrets": "import secrets\nVALUE = secrets.token_hex()",
    "uuid4": "import uuid\nVALUE = uuid.uuid4()",
    "uuid1": "import uuid\nVALUE = uuid.uuid1()",
    "numpy.random": "import numpy\nVALUE = numpy.random.default_rng().random()",
    "getrandom by its number": C + "C.syscall(318 if x86 else 278, b, 8, 0)\nVALUE = b.raw[:8]",
    "SQLite's random numbers": "import sqlite3\n"
    "VALUE = sqlite3.connect(':memory:').execute('select random()').fetchone()",
    "a name of a temporary file": "import tempfile\nVALUE = tempfile.mkdtemp()",
    "the number of the process": "VALUE = os.getpid()",
    "the number of the process by C": C + "VALUE = C.getpid()",
    "id": "VALUE = [id(x) for x in [object() for _ in range(99)]]",
    "the order of objects in a set": "class T: pass\nk = [T() for _ in range(99)]\nVALUE = list(map(k.index, set(k)))",
    "processors": "VALUE = os.cpu_count()",
    "the affinity": "VALUE = len(os.sched_getaffinity(0))",
    "processors by C": C + "VALUE = C.sysconf(84)",
    "the time of a file": "(Path('/tmp') / 'x').touch()\nVALUE = os.stat('/tmp/x').st_mtime_ns",
    "the clock of a Python": (
        "code = 'import time; print(time.time())'\nVALUE = subprocess.check_output([sys.executable, '-c', code])"
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(made.site)])
    return made


def names(table: Iterable[str]) -> list[object]:
    """The names of a table's routes; all but a few are slow together."""
    return [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in table]


def states(route: Route, project: Project, server: Server) -> tuple[dict[str, str], dict[str, str], bool]:
    """The replies in both states of the thing, and whether the inputs differ between them."""
    project.write({"kernel.py": route.code})
    route.before(project)
    first, then = project.run(server), project.inputs()
    route.after(project)
    second, now = project.run(server), project.inputs()
    return first, second, then != now


@pytest.mark.parametrize("name", names(READ))
def test_what_is_not_declared_is_refused_or_absent(name: str, project: Project, server: Server) -> None:
    route = READ[name]
    first, second, differ = states(route, project, server)
    assert not differ
    if route.refused:
        assert route.refused in first.get("error", ""), first
        if route.refused.startswith(("files", "programs")):
            assert re.search(r"kernel\.py:\d+ ", first["error"]) and first["error"].startswith("UndeclaredInput")
    assert first == second, "the result depends on what is not there"


@pytest.mark.parametrize("name", names({n: r for n, r in READ.items() if r.declared}))
def test_what_is_declared_is_exact(name: str, project: Project, server: Server) -> None:
    route = READ[name]
    folders = {"search": project.search, "outside": project.outside}
    project.declared = tuple(text.format(**folders) for text in route.declared)
    first, second, differ = states(route, project, server)
    assert "error" not in first and "error" not in second, (first, second)
    assert first["value"] != second["value"]
    assert differ


@pytest.mark.parametrize("name", names(EXACT))
def test_what_import_statements_name_is_exact(name: str, project: Project, server: Server) -> None:
    first, second, differ = states(EXACT[name], project, server)
    assert "error" not in first and "error" not in second, (first, second)
    assert first["value"] != second["value"] and differ


@pytest.mark.parametrize("name", names(ALWAYS_THE_SAME))
def test_the_surroundings_are_the_same(name: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two processes of other environments, folders and machines."""
    project.write({"kernel.py": f"{HEAD}{ALWAYS_THE_SAME[name]}\n"})
    replies = []
    for value in ("1", "2"):
        monkeypatch.setenv("PRECAST_ROUTE", value)
        monkeypatch.setenv("HOME", f"/home/{value}")
        monkeypatch.setenv("XDG_CONFIG_HOME", f"/home/{value}")
        os.utime(project.search / "kernel.py", (int(value), int(value)))
        with serving() as started:
            replies.append(project.run(started))
    assert "error" not in replies[0] and replies[0] == replies[1]


@pytest.mark.parametrize("name", names(TWICE))
def test_a_second_compilation_differs(name: str, project: Project, server: Server) -> None:
    project.write({"kernel.py": f"{HEAD}{TWICE[name]}\n"})
    first, second = project.run(server), project.run(server, again=True)
    assert "error" not in first and "error" not in second, (first, second)
    if name in ("processors", "the affinity", "processors by C") and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("this machine has one processor")
    assert first["value"] != second["value"]


@pytest.mark.slow
@pytest.mark.parametrize("processor", sorted(os.sched_getaffinity(0))[:2])
def test_torch_computes_on_each_processor(processor: int, project: Project, server: Server) -> None:
    """Its first operation on the CPU reads ``/proc/cpuinfo``, and crashed on some processors where that was empty."""
    pytest.importorskip("torch")
    code = f"os.sched_setaffinity(0, {{{processor}}})\nimport torch\nVALUE = float(torch.ones(3).sum())"
    project.write({"kernel.py": f"{HEAD}{code}\n"})
    assert project.run(server)["value"] == "3.0"


@pytest.mark.parametrize("by", ["namespaces", "landlock", "none"])
def test_the_means(by: str, project: Project, server: Server) -> None:
    """What the author's Python code reads is refused by any of them; what C code reads, by the first two."""
    project.write({"kernel.py": f"{HEAD}VALUE = F.read_text()\n"})
    MADE(project)
    reply = project.run(server, by=by)
    if by != "none" and reply["by"] != by:
        pytest.skip(f"this kernel has no {by}")
    assert "files: [" in reply["error"]
    project.write({"kernel.py": f"{HEAD}{C}VALUE = C.open(name, 0) >= 0\n"})
    assert project.run(server, by=by)["value"] == str(by == "none")
    project.declared = (f"file:{project.search}/tiles.json",)
    assert project.run(server, by=by)["value"] == "True"


@pytest.mark.slow
@pytest.mark.parametrize("by", ["namespaces", "landlock", "none"])
@pytest.mark.parametrize("code", ["VALUE = (D / 'out').read_text()", "VALUE = (D / 'in').read_text()"])
def test_a_link_in_a_declared_folder_that_leads_out_of_it(code: str, by: str, project: Project, server: Server) -> None:
    """The folder's digest has the link and not what it leads to, so that this must be declared, too."""
    project.write({"kernel.py": f"{HEAD}{code}\n", "tiles/inside": "inside"})
    project.write({"t": "outside"}, project.outside)
    (project.search / "tiles" / "out").symlink_to(project.outside / "t")
    (project.search / "tiles" / "in").symlink_to("inside")
    (project.search / "tiles" / "round").symlink_to(".")
    project.declared = (f"folder:{project.search}/tiles",)
    reply = project.run(server, by=by)
    if by != "none" and reply["by"] != by:
        pytest.skip(f"this kernel has no {by}")
    if "'in'" in code:
        assert reply["value"] == "'inside'"
        return
    assert f"files: [{project.outside}/t]" in reply["error"]
    project.declared += (f"file:{project.outside}/t",)
    assert project.run(server, by=by)["value"] == "'outside'"


SWAPS: dict[str, tuple[Step, Step]] = {
    "file:search/kernel.py": (write("kernel.py", "VALUE = 2"), write("kernel.py", "VALUE = 1")),
    "file:search/tiles.json": (write("tiles.json", "2"), write("tiles.json", "1")),
    "folder:search/tiles": (write("tiles/b", ""), remove("tiles/b")),
    "file:search/link": (linked("tiles.json"), linked("third")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SWAPS)
def test_what_was_another_thing_only_while_it_was_copied(name: str, project: Project, server: Server) -> None:
    """Before and after the compilation all is as it was: a checkout of another state, and back."""
    project.write({"kernel.py": "VALUE = 1", "tiles.json": "1", "tiles/a": "1", "third": ""})
    linked("third")(project)
    declared = [
        f"{'folder' if each == 'tiles' else 'file'}:{project.search}/{each}" for each in ("tiles.json", "tiles", "link")
    ]
    project.declared = tuple(declared)
    closures, closure = project.closures(), project.closure()
    closures.read(closure)
    there, back = SWAPS[name]
    assert closures.inputs(closure, project.run(server)["copies"]).names
    there(project)
    reply = project.run(server)
    back(project)
    if reply["by"] != "namespaces":
        pytest.skip("this kernel has no namespaces: the process reads the files themselves")
    with pytest.raises(ChangedInputError, match=f"{name} changed during the build: build again"):
        closures.inputs(closure, reply["copies"])
