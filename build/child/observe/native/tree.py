"""The tree of processes in a log: which programs were started, by which code, and which of them are not observed."""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Collection, Iterable
from contextlib import suppress

from precast.build.child.observe.native.log import HIDDEN, Event

Location = tuple[str, int]

_GO = b"\xff Go buildinf:"  # each program in Go has it


class ProcessTree:
    """The programs of a log so far. ``locations`` has the code behind each origin.

    A program that is linked statically, or that changes the user, never begins in the log, and one in Go calls the
    kernel itself: what they read is not observed.
    """

    def __init__(self) -> None:
        self.locations: dict[int, Location] = {}
        self._programs: dict[int, str] = {}  # by process
        self._expected: dict[int, Event] = {}  # by process
        self._shells: list[Event] = []
        self._early: dict[int, int] = {}  # the parents of programs that began before their start was noted
        self._pythons: dict[int, Event] = {}  # that have not begun to observe themselves
        self._direct: list[Event] = []  # programs that call the kernel without the C library
        self._observing: set[int] = set()

    def add(self, event: Event) -> None:
        """Take an event about a program; others have no effect."""
        process = event.process
        if event.kind == "x":
            if self._early.pop(event.stamp[0], None) is None:
                self._expected[event.stamp[0] or process] = event
        elif event.kind == "f":
            self._expected.pop(process, None)
        elif event.kind == "p":
            begun = next((pid for pid, parent in self._early.items() if parent == process), None)
            if begun is None:
                self._shells.append(event)
            else:
                del self._early[begun]
        elif event.kind == "b":
            self._begin(event)

    def _begin(self, event: Event) -> None:
        expected = self._expected.pop(event.process, None) is not None
        if not expected and not self._expects_shell(event.parent):
            self._early[event.process] = event.parent
        self._programs[event.process] = event.text
        self._observing.discard(event.process)
        if event.failed:
            self._pythons[event.process] = event
        if _calls_kernel(event.text):
            self._direct.append(event)

    def _expects_shell(self, parent: int) -> bool:
        for number, shell in enumerate(self._shells):
            if shell.process == parent:
                del self._shells[number]
                return True
        return False

    def observes_itself(self, process: int) -> None:
        """The Python of a process has installed its own observer."""
        self._pythons.pop(process, None)
        self._observing.add(process)

    def is_observing(self, process: int) -> bool:
        """Whether a process is a Python with an observer of its own."""
        return process in self._observing

    def is_unobserved_python(self, process: int) -> bool:
        """Whether a process is a Python without an observer of its own."""
        return process in self._pythons

    def program_of(self, event: Event) -> str:
        """The program of the process of an event; of a copy of a process, that of its parent."""
        return self._programs.get(event.process) or self._programs.get(event.parent, "")

    def location_of(self, event: Event) -> Location | None:
        """The code that started the program of an event; None if it does not count."""
        if event.origin == HIDDEN:
            return None
        return self.locations.get(event.origin, ("", 0))

    def unseen(self) -> list[tuple[str, Location]]:
        """The programs whose requests are not in the log, and the code that started them. Each is returned once."""
        events = [*self._expected.values(), *self._shells, *self._pythons.values(), *self._direct]
        self._expected, self._shells, self._pythons, self._direct = {}, [], {}, []
        programs = [(event.text, self.location_of(event)) for event in events]
        return [(name, location) for name, location in programs if location is not None]


def starting(events: Iterable[Event]) -> Collection[int]:
    """The processes that were to run a program which, by these events, has not begun, or is a Python that does not
    observe itself yet."""
    tree = ProcessTree()
    for event in events:
        if event.kind == "P" and event.text == "observing":
            tree.observes_itself(event.process)
        elif event.origin != HIDDEN:
            tree.add(event)
    return {*tree._expected, *tree._pythons}


def is_running(process: int) -> bool:
    """Whether a process exists and has not ended.

    >>> is_running(os.getpid()), is_running(0)
    (True, False)
    """
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def origin_of(location: Location | None) -> int:
    """The number of the code that starts a program, the same in each process.

    >>> origin_of(None), origin_of(("/kernels/norm.py", 3)) == origin_of(("/kernels/norm.py", 3))
    (1, True)
    """
    if location is None:
        return HIDDEN
    digest = 0xCBF29CE484222325
    for letter in f"{location[0]}:{location[1]}".encode(errors="surrogateescape"):
        digest = ((digest ^ letter) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return (digest >> 32) | 2


@functools.cache
def _calls_kernel(program: str) -> bool:
    """Whether a program is written in Go."""
    with (
        suppress(OSError, ValueError),
        open(program, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(_GO) >= 0
    return False


def absolute(text: str) -> str:
    """A path of an event without dots.

    >>> absolute("/a/./b/../c")
    '/a/c'
    """
    return os.path.normpath(text) if not text.startswith("//") else os.path.normpath(text[1:])
