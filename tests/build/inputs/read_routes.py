"""Ways to read what no import statement names: refused or absent, and exact where it is declared."""

from __future__ import annotations

from dataclasses import replace

from tests.helpers.inputs.route import (
    CHANGED,
    DATA,
    FOLDER,
    GONE,
    HEAD,
    MADE,
    ONE,
    TWO,
    C,
    Route,
    absent,
    archive,
    database,
    existing,
    install,
    linked,
    listing,
    reading,
    running,
    steps,
    with_programs,
    write,
)

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
