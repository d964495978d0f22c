"""Ways to read what is always an input, the same for all compilations, or different in a second one."""

from __future__ import annotations

from tests.helpers.inputs.route import (
    C,
    Route,
    install,
    steps,
    write,
)

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
