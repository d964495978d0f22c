"""The lock of a folder that one process at a time may use."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from precast.loader.errors import FetchError

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}
_TRIES = 100
_TURN_SECONDS = 0.1
_STOPPED_SECONDS = 5.0


def locked(path: Path, wait: Callable[[], None]) -> int:
    """Make a folder, unless it exists, and lock it. A process that held the lock may have removed it meanwhile.

    ``wait`` is called before this waits for another process. That has limits of its own, unless a signal has stopped
    it: then a FetchError names it.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o755)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            facts = os.fstat(handle)
            if facts.st_uid != os.geteuid() or facts.st_mode & stat.S_IWOTH:
                raise FetchError(f"{path} belongs to another user or is world-writable: remove it, and run this again")
            _lock(handle, facts, wait)
            if os.path.samestat(os.stat(path, follow_symlinks=False), facts):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise FetchError(f"{path} is repeatedly removed by other processes: choose another folder")


def _lock(handle: int, facts: os.stat_result, wait: Callable[[], None]) -> None:
    begun = 0.0
    stopped_since = 0.0
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            now = time.monotonic()
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return
        if not begun:
            wait()
            begun = now
        stopped = _stopped_holder(facts)
        stopped_since = (stopped_since or now) if stopped else 0.0
        if stopped and now - stopped_since > _STOPPED_SECONDS:
            raise FetchError(
                f"process {stopped} fetches into the same folder, and was stopped by a signal: continue it with"
                f" 'kill -CONT {stopped}', or end it, and run this again"
            )
        time.sleep(_TURN_SECONDS)


def _stopped_holder(facts: os.stat_result) -> int:
    """The process that has the lock of a folder, if a signal has stopped it; else 0. Other systems list none."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1:2] == ["FLOCK"] and words[5].rpartition(":")[2] == str(facts.st_ino):
                pid = int(words[4])
                if _is_stopped(pid) and _has_open(pid, facts):
                    return pid
    return 0


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def _has_open(pid: int, facts: os.stat_result) -> bool:
    """Whether a process has this folder open: another file system may have a file of the same number."""
    with contextlib.suppress(OSError):
        return any(os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), facts) for name in os.listdir(f"/proc/{pid}/fd"))
    return False
