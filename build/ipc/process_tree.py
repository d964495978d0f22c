"""Process trees: all descendants of a process, including those in other sessions."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import signal
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TURNS, _TURN_SECONDS = 1000, 0.002


def descendants(pid: int) -> list[int]:
    """The descendants of a process, from the top down.

    >>> os.getpid() in descendants(os.getppid())
    True
    """
    children = _children if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _table().get
    pids: list[int] = []
    pending = [pid]
    while pending:
        below = children(pending.pop()) or []
        pids += below
        pending += below
    return pids


def _children(pid: int) -> list[int]:
    """The children of a process, as the kernel lists them for each of its threads."""
    pids: list[int] = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:
            pids += map(int, file.read().split())
    return pids


def _table() -> dict[int, list[int]]:
    """The children of every process, for kernels without such lists."""
    children: dict[int, list[int]] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError), open(path) as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.split("/")[2]))
    return children


def has_ended(pid: int) -> bool:
    """Whether there is no such process, or one that waits for its parent to read its exit status.

    >>> has_ended(os.getpid())
    False
    """
    return _state(pid) in ("", "Z")


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal (SIGSTOP), and waits to be continued.

    >>> is_stopped(os.getpid())
    False
    """
    return _state(pid) == "T"


def waited_for_processor(pid: int) -> float:
    """The seconds for which a process could have run, and others had all processors; 0 where the kernel has no count.

    >>> waited_for_processor(os.getpid()) >= 0.0
    True
    """
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


class StopTimer:
    """How long a process, or one that it has started, has been stopped by a signal.

    >>> StopTimer(5.0).expired(os.getpid())
    False
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = 0.0

    def expired(self, pid: int) -> bool:
        """Whether one of them was stopped at each call since more than these seconds ago."""
        now = time.monotonic()
        stopped = any(map(is_stopped, [pid, *descendants(pid)]))
        self._since = (self._since or now) if stopped else 0.0
        return stopped and now - self._since > self._seconds


def end_descendants(pid: int) -> None:
    """Kill the descendants of a process, and those that they start meanwhile."""
    for _ in range(_TURNS):
        if not sum(map(_kill, descendants(pid))):
            return
        time.sleep(_TURN_SECONDS)


def reap() -> None:
    """Reap the children of this process that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can still be listed."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int, *, at_once: bool = True) -> None:
    """Have the kernel end this process when its parent ends, even during a compilation; undo it if not ``at_once``."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if at_once else 0)
    if os.getppid() != parent:
        os._exit(1)


def _kill(pid: int) -> bool:
    """Kill a process; False if there is none, it may not be killed, or it has ended and waits for its parent."""
    if has_ended(pid):
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _state(pid: int) -> str:
    """The letter that the kernel has for the state of a process; empty where there is none."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def describe_exit(code: int) -> str:
    """How a process ended, by the code that ``subprocess`` gives.

    >>> describe_exit(3), describe_exit(-11)
    ('ended with exit status 3', 'was ended by SIGSEGV')
    >>> describe_exit(-9)
    'was ended by SIGKILL; it may have run out of memory'
    """
    if code >= 0:
        return f"ended with exit status {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was ended by {name}{'; it may have run out of memory' if name == 'SIGKILL' else ''}"
