"""The state of a process that it inherits from the shell or the service that started the build."""

from __future__ import annotations

import os
import platform
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from precast.build.child.closed.system_calls import call_by_name, control
from precast.build.ipc.process_tree import adopt_orphans, end_with_parent

_KEPT: list[object] = []
_BYTE_CODE = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
_FOR_ROOT = (resource.RLIMIT_CORE, resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO)
_TIMER_SLACK, _NANOSECONDS = 29, 50_000
_OLD_NUMBERS = 0x20000  # the kernel's release is another one then
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def reset() -> None:
    """Make the state of this process the same everywhere, as far as that can be."""
    os.umask(0o022)
    for number in signal.valid_signals() - {*_IGNORED_BY_PYTHON}:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with suppress(OSError):  # a user may not
        os.setgroups([])
    for limit in _FOR_ROOT:
        resource.setrlimit(limit, (0, 0))
    with suppress(OSError):
        Path("/proc/self/coredump_filter").write_text("0x33")
    control(_TIMER_SLACK, _NANOSECONDS)
    _set_personality(0)
    for name in _BYTE_CODE:
        os.environ.pop(name, None)
    sys.dont_write_bytecode, sys.pycache_prefix = True, None
    sys.path[:] = filter(os.path.exists, sys.path)
    if folders := ":".join(filter(os.path.exists, os.environ.pop("PYTHONPATH", "").split(":"))):
        os.environ["PYTHONPATH"] = folders


def perturb() -> None:
    """Change what can be changed, for a second compilation: where objects are, processors, limits, priorities, numbers
    of processes, and the kernel's release. This process continues as a child of itself."""
    parent = os.getpid()
    if (child := os.fork()) != 0:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    end_with_parent(parent)
    adopt_orphans()  # as the process that it continues did
    os.setsid()
    _KEPT.extend(bytearray(size) for size in range(1, 6000, 7))
    _KEPT.extend(object() for _ in range(99))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.nice(1)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(int(score.read_text()) + 1, 1000)))
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            _lower(getattr(resource, name))
    _set_personality(_OLD_NUMBERS)
    vars(platform).update(_uname_cache=None, _platform_cache={})


def _set_personality(flags: int) -> None:
    with suppress(OSError):  # a container may forbid it
        call_by_name("personality", flags)


def _lower(limit: int) -> None:
    soft, hard = (1 << 48 if each < 0 else each for each in resource.getrlimit(limit))
    if soft:
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (min(soft, hard) - 1, hard - 1))
