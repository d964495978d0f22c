"""Facts of the machine, of its other processes, and of the process that compiles."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from tests.helpers.inputs.project import Project
from tests.helpers.inputs.route import GONE, HEAD, MADE, C, Route, Step

_LIBC = ctypes.CDLL(None, use_errno=True)
_KEY = 248, 217  # add_key on x86-64 and on ARM; revoking one is keyctl(3)
_LISTENERS: dict[str, socket.socket] = {}


VARIABLES = {
    "PRECAST_ROUTE": "2", "HOME": "/home/2", "XDG_CONFIG_HOME": "/home/2", "XDG_CACHE_HOME": "/home/2",
    "COLUMNS": "200", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "PYTHONOPTIMIZE": "1", "PYTHONWARNINGS": "error",
    "PYTHONINTMAXSTRDIGITS": "9999", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/tmp",
    "PYTHONIOENCODING": "latin-1", "PYTHONPATH": os.path.dirname(__file__), "CUTE_DSL_KEEP_PTX": "1",
    "CUDA_HOME": "/opt/cuda", "OMP_NUM_THREADS": "3", "CFLAGS": "-O0", "TORCH_HOME": "/home/2",
}  # fmt: skip
"""Of the other one of two processes."""


def other_state() -> None:
    """Before it starts: as of a shell on another machine."""
    os.umask(0o077)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    with contextlib.suppress(OSError):
        Path("/proc/self/coredump_filter").write_text("0x11")
    _LIBC.prctl(29, 777_000, 0, 0, 0)
    _LIBC.personality(0x0040000)
    resource.setrlimit(resource.RLIMIT_CORE, (4096, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if os.geteuid() == 0:
        os.setgroups([0, 7])
        _LIBC.unshare(0x4000000)
        _LIBC.setdomainname(b"other", 5)
        _LIBC.prctl(24, 20, 0, 0, 0)  # a privilege that no process below it has


def _fact(name: str) -> str:
    return f"VALUE = os.path.exists('/proc/{name}') and open('/proc/{name}').read() or ''"


THE_SAME = {
    "the domain of the host": C + "C.getdomainname(b, 99)\nVALUE = b.value",
    "ignored signals": "import signal\nVALUE = [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())]",
    "blocked signals": "import signal\nVALUE = signal.pthread_sigmask(signal.SIG_BLOCK, ())",
    "the groups of the user": "VALUE = os.getgroups()",
    "the number of the user": "VALUE = os.getresuid(), os.getresgid()",
    "privileges": "VALUE = [x for x in open('/proc/self/status') if x.startswith('Cap')]",
    "whether a core is written": "import resource\nVALUE = resource.getrlimit(resource.RLIMIT_CORE)",
    "what a core would have": "VALUE = open('/proc/self/coredump_filter').read()",
    "the slack of timers": C + "VALUE = C.prctl(30, 0, 0, 0, 0)",
    "the personality": C + "VALUE = C.personality(0xffffffff)",
    "the group of the process's resources": "VALUE = open('/proc/self/cgroup').read()",
    "flags of the interpreter": "VALUE = sys.flags, __debug__",
    "whether byte code is written": "VALUE = sys.dont_write_bytecode, sys.pycache_prefix",
    "filters of warnings": "import warnings\nVALUE = len(warnings.filters)",
    "the encoding of output": "VALUE = sys.stdout.encoding, sys.stderr.errors",
    "the longest number as a text": "VALUE = sys.get_int_max_str_digits()",
    "a hash of a text": "VALUE = hash('tile')",
    "the order of texts in a set": "VALUE = list({f'tile{n}' for n in range(99)})",
    "the locale": "import locale\nVALUE = locale.setlocale(locale.LC_ALL, ''), locale.localeconv()",
    "the zone of local times": "import time\nVALUE = time.tzname, time.localtime(0)",
    "the size of the terminal": "import shutil\nVALUE = shutil.get_terminal_size()",
    "folders of Python's path": "VALUE = len(sys.path), os.environ.get('PYTHONPATH')",
    "the size of the root": "s = os.statvfs('/')\nVALUE = s.f_blocks, s.f_files",
    "settings of the compiler": "VALUE = [n for n in os.environ if n.startswith('CUTE_DSL_KEEP')]",
    "the toolkit that a variable names": "VALUE = os.environ.get('CUDA_HOME'), os.path.exists('/usr/local/cuda')",
    "the number of threads of libraries": "VALUE = os.environ.get('OMP_NUM_THREADS')",
    "the compiler's options in a variable": "VALUE = os.environ.get('CFLAGS'), os.environ.get('NVCC_APPEND_FLAGS')",
    "caches of libraries": "VALUE = [os.environ.get(n) for n in ('TRITON_CACHE_DIR', 'TORCH_HOME', 'XDG_CACHE_HOME')]",
    "modules of the system's kernel": _fact("modules"),
    "the command line of the system": _fact("cmdline"),
    "the driver of a GPU": "VALUE = os.path.exists('/proc/driver') and os.listdir('/proc/driver') or []",
    "devices of the system": _fact("devices"),
    "file systems": _fact("filesystems"),
    "interrupts": _fact("interrupts"),
    "the identity of a start of the system": "VALUE = os.path.exists('/proc/sys/kernel/random/boot_id')",
    "limits of the system": "VALUE = os.listdir('/proc/sys')",
    "settings of the kernel": "VALUE = os.path.exists('/proc/config.gz') and os.path.getsize('/proc/config.gz') or 0",
    "pressure": "VALUE = os.listdir('/proc/pressure') if os.path.exists('/proc/pressure') else []",
}
"""In two processes with other variables, started in other states."""

OTHERWISE = {
    "the priority": "VALUE = os.nice(0)",
    "the policy of the scheduler": "VALUE = os.sched_getscheduler(0)",
    "the score at a lack of memory": "VALUE = open('/proc/self/oom_score_adj').read()",
    "the largest number of files": "import resource\nVALUE = resource.getrlimit(resource.RLIMIT_NOFILE)",
    "the largest stack": "import resource\nVALUE = resource.getrlimit(resource.RLIMIT_STACK)",
    "limits by C": C + "C.getrlimit(6, b)\nVALUE = b.raw[:16]",
    "limits of the process": "VALUE = open('/proc/self/limits').read()",
    "the number of the parent": "VALUE = os.getppid()",
    "the session": "VALUE = os.getsid(0)",
    "the group of processes": "VALUE = os.getpgrp()",
    "the release of the system's kernel": "VALUE = os.uname().release",
    "the release by a text": "import platform\nVALUE = platform.platform()",
    "mounts of the process": "VALUE = open('/proc/self/mountinfo').read()",
    "when a file changed": "VALUE = os.stat(__file__).st_ctime_ns",
    "when a folder changed": "VALUE = os.stat(here).st_mtime_ns",
    "addresses of the process": "VALUE = id([object() for _ in range(99)][-1]), open('/proc/self/maps').read()",
    "blocks of memory": "VALUE = sys.getallocatedblocks()",
    "used memory": "import resource\nVALUE = resource.getrusage(resource.RUSAGE_SELF)",
    "context switches and times": "VALUE = open('/proc/self/schedstat').read()",
    "processor time": "import time\nVALUE = time.process_time_ns()",
    "time of a thread": "import time\nVALUE = time.thread_time_ns()",
    "the number of a thread": "import threading\nVALUE = threading.get_native_id()",
    "random numbers of OpenSSL": "import ssl\nVALUE = ssl.RAND_bytes(8)",
    "a shuffled list": "import random\nVALUE = list(range(99))\nrandom.shuffle(VALUE)",
    "a race of threads": (
        "import threading, time\nVALUE = []\ndef f(n):\n    time.sleep(os.urandom(1)[0] / 1e5)\n    VALUE.append(n)\n"
        "ts = [threading.Thread(target=f, args=(n,)) for n in range(30)]\n"
        "[t.start() for t in ts]\n[t.join() for t in ts]"),
    "a time limit": "import time\nn, t = 0, time.monotonic() + .01\nwhile time.monotonic() < t: n += 1\nVALUE = n",
    "a port of a socket": (
        "import socket\ns = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(9)]\n"
        "[x.bind(('127.0.0.1', 0)) for x in s]\nVALUE = [x.getsockname() for x in s]"),
    "weak references by address": (
        "import weakref\nclass T: pass\nk = [T() for _ in range(99)]\n"
        "VALUE = list(map(k.index, weakref.WeakSet(k)))"),
}  # fmt: skip
"""Found by a second compilation."""


def _keyring(add: bool) -> Step:
    """A key of the user, in the kernel."""

    def step(_: Project) -> None:
        x86 = os.uname().machine == "x86_64"
        if add:
            _LIBC.syscall(_KEY[not x86], b"user", b"precast-tile", b"1", ctypes.c_size_t(1), -4)
        else:
            _LIBC.syscall(250 if x86 else 219, 9, _found_key(x86), -4, 0, 0)

    return step


def _found_key(x86: bool) -> int:
    return int(_LIBC.syscall(250 if x86 else 219, 10, -4, b"user", b"precast-tile", 0))


def _listening(on: bool) -> Step:
    def step(_: Project) -> None:
        if on:
            _LISTENERS["s"] = made = socket.socket(socket.AF_UNIX)
            made.bind("\0precast-tile")
            made.listen()
        else:
            _LISTENERS.pop("s").close()

    return step


def _segment(make: bool) -> Step:
    def step(_: Project) -> None:
        number = _LIBC.shmget(0x7EC, 8, 0o1600 if make else 0)
        if not make:
            _LIBC.shmctl(number, 0, None)

    return step


def _semaphores(make: bool) -> Step:
    def step(_: Project) -> None:
        number = _LIBC.semget(0x7EC, 1, 0o1600 if make else 0)
        if not make:
            _LIBC.semctl(number, 0, 0)

    return step


def _messages(make: bool) -> Step:
    def step(_: Project) -> None:
        number = _LIBC.msgget(0x7EC, 0o1600 if make else 0)
        if not make:
            _LIBC.msgctl(number, 0, None)

    return step


def _posix_queue(make: bool) -> Step:
    return lambda _: _LIBC.mq_open(b"/precast-tile", 0o102, 0o600, None) if make else _LIBC.mq_unlink(b"/precast-tile")


def _file(path: str, make: bool) -> Step:
    def step(_: Project) -> None:
        Path(path).write_text("1") if make else Path(path).unlink()

    return step


def _of_system(code: str, state: Callable[[bool], Step]) -> Route:
    return Route("import os, sys\n" + code, state(True), state(False))


def _hidden(code: str) -> Route:
    return Route(HEAD + code, MADE, GONE)


NOT_THERE = {
    "a key of the user": _of_system(
        "import ctypes, platform\nC = ctypes.CDLL(None)\n"
        "VALUE = C.syscall(250 if platform.machine() == 'x86_64' else 219, 10, -4, b'user', b'precast-tile', 0)",
        _keyring),
    "a segment of shared memory": _of_system("import ctypes\nVALUE = ctypes.CDLL(None).shmget(0x7EC, 0, 0)", _segment),
    "semaphores": _of_system("import ctypes\nVALUE = ctypes.CDLL(None).semget(0x7EC, 0, 0)", _semaphores),
    "a queue of messages": _of_system("import ctypes\nVALUE = ctypes.CDLL(None).msgget(0x7EC, 0)", _messages),
    "a queue of POSIX": _of_system(
        "import ctypes\nVALUE = ctypes.CDLL(None).mq_open(b'/precast-tile', 0)", _posix_queue),
    "an abstract socket": _of_system(
        "import socket\ns = socket.socket(socket.AF_UNIX)\n"
        "try: s.connect('\\0precast-tile'); VALUE = 1\nexcept OSError: VALUE = 0", _listening),
    "shared memory by its name": _of_system(
        "from multiprocessing.shared_memory import SharedMemory as S\n"
        "try: VALUE = S('precast-tile').size\nexcept (OSError, ValueError): VALUE = 0",
        lambda make: _file("/dev/shm/precast-tile", make)),
    "a temporary file of another process": _of_system(
        "VALUE = os.path.exists('/tmp/precast-tile')", lambda make: _file("/tmp/precast-tile", make)),
    "a file by the root of its parent": _hidden(
        "try: VALUE = os.path.exists(f'/proc/{os.getppid()}/root{F}')\nexcept OSError: VALUE = 0"),
    "a file by the root of the first process": _hidden("VALUE = os.path.exists(f'/proc/1/root{F}')"),
    "a file by the folder of its parent": _hidden(
        "VALUE = os.path.exists(f'/proc/{os.getppid()}/cwd/{os.path.relpath(F, \"/\")}')"),
}  # fmt: skip

_TRIED = "def tried(f, *a):\n    try: return f(*a) not in (-1, None)\n    except OSError: return False\n"
_P = "f'/proc/{os.getppid()}/"
IMPOSSIBLE = {
    "memory of its parent": f"VALUE = tried(os.open, {_P}mem', 0)",
    "variables of its parent": f"VALUE = tried(os.open, {_P}environ', 0)",
    "addresses of its parent": f"VALUE = tried(os.open, {_P}maps', 0) and os.read(os.open({_P}maps', 0), 9) != b''",
    "folders of its parent": f"VALUE = tried(os.listdir, {_P}root')",
    "a descriptor of its parent": C + "p = C.syscall(434, os.getppid(), 0)\nVALUE = tried(C.syscall, 438, p, 0, 0)",
    "what its parent allocated": C + (
        "v = (ctypes.c_uint64 * 2)(id(None), 8)\nw = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 8)\n"
        "VALUE = tried(C.syscall, 310 if x86 else 270, os.getppid(), w, 1, v, 1, 0)"),
    "tracing its parent": C + "VALUE = tried(C.ptrace, 0x4206, os.getppid(), None, None)",
    "a file by its number on disk": C + (
        "h, m = ctypes.create_string_buffer(b'\\x80' + bytes(127), 128), ctypes.c_int()\n"
        "n = __file__.encode()\n"
        "C.name_to_handle_at(-100, n, h, ctypes.byref(m), 0)\nVALUE = tried(C.open_by_handle_at, C.open(n, 0), h, 0)"),
    "what a mount hides": "import ctypes\nVALUE = tried(ctypes.CDLL(None).umount2, b'/proc/cpuinfo', 2)",
    "a mount of its own": C + "VALUE = tried(C.mount, b'proc', b'/home', b'proc', 0, None)",
    "another root": "VALUE = tried(lambda: os.chroot('/tmp') or 1)",
    "a device of its own": "import stat\nVALUE = tried(lambda: os.mknod('/tmp/d', stat.S_IFBLK | 0o600, 0x800) or 1)",
    "another namespace": C + f"VALUE = tried(lambda: C.setns(os.open({_P}ns/mnt', 0), 0))",
    "another name of the host": "import socket\nVALUE = tried(lambda: socket.sethostname('x') or 1)",
    "the host of a virtual machine": C + "VALUE = tried(C.socket, 40, 1, 0)",
    "requests in a ring": C + "VALUE = tried(C.syscall, 425, 4, ctypes.create_string_buffer(120))",
    "the log of the kernel": C + "VALUE = tried(C.klogctl, 10, None, 0)",
    "counters of the processor": C + "VALUE = tried(C.syscall, 298 if x86 else 241, b, 0, -1, -1, 0)",
    "a program of the kernel": C + "VALUE = tried(C.syscall, 321 if x86 else 280, 5, b, 120)",
}  # fmt: skip
IMPOSSIBLE = {name: _TRIED + code for name, code in IMPOSSIBLE.items()}
"""What would go round the closing, or outside of it, fails: the value is False."""
