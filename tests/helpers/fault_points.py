"""Fault points: an action is stopped at each of its steps on the file system, in a process of its own.

A step is what Python reports to audit hooks, before it happens: opening, making, renaming and removing files and
folders of one place, locking them, and calling a C function. A kill also stops after each function that changes files
returns: after a file is opened and cut, before its bytes are written, before they are flushed. What happens inside a
write is reported nowhere: there the system's limit on the size of a file stops the process after so many bytes.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from precast.build.errors import StoreError
from precast.loader.errors import FetchError

Fault = Literal["kill", "error"]
FINISHED, REFUSED, BROKEN = 0, 1, 2  # how a child ends; a killed one by its signal
_FILES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.utime", "os.scandir", "os.listdir")
_CALLS = ("ctypes.dlsym", "ctypes.get_errno", "fcntl.flock")
_CHANGES = ("open", "write", "close", "mkdir", "rename", "replace", "unlink", "rmdir", "chmod", "__exit__")


def run(action: Callable[[], object]) -> int:
    """Run an action in a child process: FINISHED, REFUSED (a typed error), BROKEN, or minus the signal's number."""
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            action()
            code = FINISHED
        except (StoreError, FetchError):
            code = REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def stopped(action: Callable[[], object], folder: Path, step: int, fault: Fault) -> int:
    """Run an action that is killed at a step, or whose step fails as on a full disk; see ``run`` for the result."""

    def stop() -> None:
        seen = 0

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal seen
            named = event in _FILES and str(folder) in str(arguments[0])
            if not (named or event in _CALLS):
                return
            seen += 1
            if seen == step and fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if seen == step and fault == "error" and event != "ctypes.dlsym":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def returned(frame: object, event: str, function: object) -> None:
            nonlocal seen
            if event == "c_return" and getattr(function, "__name__", "") in _CHANGES:
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        if fault == "kill":
            sys.setprofile(returned)
        action()

    return run(stop)


def stopped_writing(action: Callable[[], object], size: int, fault: Fault) -> int:
    """Run an action that is killed, or gets an error, where it writes a file beyond so many bytes."""

    def stop() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if fault == "kill" else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        action()

    return run(stop)
