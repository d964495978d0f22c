"""The native observer of a process: its log, and what of the log was read so far.

A process that precast forks for a module or a variant gets a log of its own. All other copies of a process, and the
programs that it starts, write to the log of the process that started them; so does the Python part of the observer
there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import getpid
from time import sleep

from precast.build.child.observe.native.declared import declared_folders, is_hermetic
from precast.build.child.observe.native.log import HIDDEN, NativeLog, close_file
from precast.build.child.observe.native.requests import NativeRequests, Requests
from precast.build.child.observe.native.tree import Location, is_running, origin_of, starting
from precast.build.errors import ToolError

_LOOKS, _BETWEEN_LOOKS = 200, 0.01  # 2 seconds for a program that never begins, such as a static one that stays
_ROOT = os.path.abspath(__file__).rsplit("/precast/", 1)[0]


class GivenLog:
    """A log for the process that is forked next: it calls ``use``; its parent calls ``close`` after it has ended."""

    def __init__(self, observer: NativeObserver | None) -> None:
        self._observer = observer
        self._file, self._path = observer.new_file() if observer is not None else (-1, "")

    def use(self) -> None:
        """In the forked process: write to this log from now on."""
        if self._observer is not None:
            self._observer.use(self._file, self._path)

    def close(self) -> None:
        """In its parent: no process needs it any more."""
        if self._file >= 0:
            close_file(self._file)
            self._file = -1


class NativeObserver:
    """What native code and other programs read on behalf of this process. ``start`` returns None where that is not
    possible."""

    def __init__(self, log: NativeLog) -> None:
        self._log = log
        self._owner = getpid()
        self._seen: set[str] = set()
        self._requests = NativeRequests(self._seen, self._owner)
        self._usable = True
        self.started = False  # by a process whose log this process writes to

    @classmethod
    def start(cls) -> NativeObserver | None:
        """Start a log for this process. A hermetic compilation can read from now on what is declared."""
        log = NativeLog.find(_ROOT)
        hermetic = is_hermetic(os.environ)
        if log is None:
            if hermetic:
                raise ToolError("a hermetic build needs the observer's library: install gcc, or leave --hermetic out")
            return None
        if hermetic:
            log.allowed = declared_folders(sys.path, _ROOT, os.environ)
        observer = cls(log)
        file, path = observer.new_file()
        observer.use(file, path)
        log.be_quiet()
        return observer if observer._usable else None

    @classmethod
    def join(cls) -> NativeObserver | None:
        """In a Python that an observed process has started: write to the log of that process."""
        log = NativeLog.find(_ROOT)
        if log is None:
            return None
        observer = cls(log)
        observer.started = True
        log.be_quiet()
        log.note("observing")
        return observer

    @property
    def complete(self) -> bool:
        """Whether the log has all events."""
        return self._usable and self._log.complete

    @property
    def library(self) -> str:
        """The path of the observer's library, which is not an input."""
        return self._log.path

    @property
    def forwards(self) -> bool:
        """Whether another process reads the log that this process writes to."""
        return self.started or getpid() != self._owner

    def forward(self, kind: str, what: str, file: str = "", line: int = 0) -> None:
        """Write a request of Python to the log."""
        self._log.note(kind, what, file, line)

    @property
    def moved(self) -> bool:
        """Whether this process has changed its working folder to an absolute path."""
        return self._log.moved

    @property
    def loads(self) -> int:
        """How many libraries this process has loaded since it began."""
        return self._log.loads

    def saw(self, path: str) -> None:
        """Python opens a file, as its own observer has noticed."""
        if self.forwards:
            self._log.note("seen", path)
        else:
            self._seen.add(path)

    def starts_program(self, location: Location | None) -> None:
        """The code there starts a program; what it reads is its request."""
        origin = origin_of(location)
        if location is not None:
            self._log.note("origin", origin, *location)
        self._log.set_origin(origin)

    def ends_start(self) -> None:
        """What this thread starts from now on is not started by that code."""
        self._log.set_origin(0)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """What this thread opens meanwhile does not count."""
        before = self._log.set_origin(HIDDEN)
        try:
            yield
        finally:
            self._log.set_origin(before)

    def is_barred(self, path: str) -> bool:
        """Whether a path was requested and is not declared, in a hermetic compilation."""
        return self._requests.is_barred(path)

    def is_made(self, path: str) -> bool:
        """Whether native code or another program has made or removed a file, or a folder that it is in."""
        return self._requests.is_made(path)

    def is_result(self, path: str) -> bool:
        """Whether a file was made here, by whichever process, before anything read it."""
        return self._requests.is_result(path)

    def read(self) -> Requests:
        """What was requested since the last call. Programs that are starting at this moment, such as the helper that
        multiprocessing leaves running, are given time to begin."""
        events = list(self._log.events())
        with self.hidden():
            for _ in range(_LOOKS):
                if not any(map(is_running, starting(events))):
                    break
                sleep(_BETWEEN_LOOKS)
                events += self._log.events()
        return self._requests.read(events)

    def new_file(self) -> tuple[int, str]:
        """A new log: its descriptor and path; without memory for it, a log that cannot be used."""
        with suppress(OSError):
            return self._log.new_file()
        return -1, ""

    def use(self, file: int, path: str) -> None:
        """From now on, this process and all that it starts write to this log."""
        self._owner = getpid()
        self._requests = self._requests.of_copy(self._owner)
        self._usable = file >= 0 and self._log.use(file, path)
