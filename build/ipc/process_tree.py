"""Process trees: all that a process has started, directly or not, also in sessions of its own."""

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
    """The processes below one, from the top down.

    >>> os.getpid() in descendants(os.getppid())
    True
    """
    children = _children if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _table().get
    found: list[int] = []
    pending = [pid]
    while pending:
        below = children(pending.pop()) or []
        found += below
        pending += below
    return found


def _children(pid: int) -> list[int]:
    """The children of a process, by what the kernel lists for each of its threads."""
    found: list[int] = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:
            found += map(int, file.read().split())
    return found


def _table() -> dict[int, list[int]]:
    """The children of every process, where the kernel has no such lists."""
    children: dict[int, list[int]] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError), open(path) as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.split("/")[2]))
    return children


def end_descendants(pid: int) -> None:
    """Kill the processes below one, and those that they start meanwhile."""
    for _ in range(_TURNS):
        if not sum(map(_kill, descendants(pid))):
            return
        time.sleep(_TURN_SECONDS)


def reap() -> None:
    """Forget the children of this process that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int, *, at_once: bool = True) -> None:
    """Have the kernel end this process when its parent is gone, even in the middle of a compilation; or no longer."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if at_once else 0)
    if os.getppid() != parent:
        os._exit(1)


def _kill(pid: int) -> bool:
    """Whether there was such a process, and it may be killed. One that has ended and waits for its parent is none."""
    with contextlib.suppress(OSError, IndexError):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        os.kill(pid, signal.SIGKILL)
        return True
    return False
