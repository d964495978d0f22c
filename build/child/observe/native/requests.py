"""Native requests: what the events of a log mean, beside what Python's own observer has recorded.

In this process and its copies, the interpreter's own requests are left out, and files whose opening Python has
reported; what is left was requested by native code, whose library is the location. All requests of a program that was
started count, and the location is the code that started it. A Python that was started observes itself, from where it
runs what it was started for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from precast.build.child.observe.code_locations import is_installed, is_standard
from precast.build.child.observe.native.callers import Callers
from precast.build.child.observe.native.log import HIDDEN, Event
from precast.build.child.observe.native.tree import ProcessTree, absolute
from precast.build.child.observe.written_files import is_inside
from precast.build.inputs.native_noise import RANDOM
from precast.build.inputs.stamp import Stamp

Row = tuple[str, str, str, int]

_FILES = {"o": "file", "s": "file", "a": "exists", "l": "link", "d": "folder"}
_STATES = {"c": "clock", "y": "randomness", "h": "host", "n": "network"}
_ALWAYS = "ov"  # an interpreter may contain the libraries of ctypes and sqlite3
_SYSTEM = ("/lib", "/usr/", "/opt/")
_BY_NAME = "/libffi"  # calls of ctypes; other libraries query the clock for their own purposes


@dataclass(slots=True)
class Requests:
    """What some events mean: requests of Python's observers in other processes, and of native code and programs."""

    python: list[Row] = field(default_factory=list)
    native: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    relative: list[str] = field(default_factory=list)
    complete: bool = True


class NativeRequests:
    """Reads events in their order. ``seen`` has the files that Python's observer in this process saw being opened."""

    def __init__(self, seen: Collection[str], owner: int) -> None:
        self._seen, self._owner = seen, owner
        self._seen_by: dict[int, set[str]] = {}
        self._made: set[str] = set()
        self._read: set[str] = set()  # files whose content was read before any process made them
        self._removed: set[str] = set()
        self._barred: set[str] = set()
        self._tree = ProcessTree()
        self._callers = Callers()

    def of_copy(self, owner: int) -> NativeRequests:
        """The requests of a copy of this process, with a log of its own: it knows which files were made before."""
        copy = NativeRequests(self._seen, owner)
        copy._barred = self._barred
        copy._made, copy._removed, copy._callers = self._made, self._removed, self._callers
        copy._read = self._read
        return copy

    def is_made(self, path: str) -> bool:
        """Whether a process of the log has made or removed a file, or a folder that it is in."""
        return is_inside(path, self._made) or is_inside(path, self._removed)

    def is_result(self, path: str) -> bool:
        """Whether a process of the log has made a file, or a folder that it is in, before anything read the file."""
        return path not in self._read and is_inside(path, self._made)

    def is_barred(self, path: str) -> bool:
        """Whether a path is not declared, in a hermetic compilation."""
        return path in self._barred

    def read(self, events: Collection[Event]) -> Requests:
        """What these events mean, in their order."""
        result = Requests()
        starts = _starts(events)
        for number, event in enumerate(events):
            self._tree.add(event)
            if event.kind == "P":
                self._python(event, result)
            elif number > starts.get(event.process, -1) or event.kind in "murkxb":
                result.native += self._native(event, result)
        for name, location in self._tree.unseen():
            result.native.append(("process", name, *location))
        return result

    def _python(self, event: Event, result: Requests) -> None:
        kind, *fields = event.text.split("\0")
        if kind == "observing":
            self._tree.observes_itself(event.process)
        elif kind == "seen":
            self._seen_by.setdefault(event.process, set()).add(fields[0])
        elif kind == "incomplete":
            result.complete = False
        elif kind == "missing":
            result.missing.append(fields[0])
        elif kind == "relative":
            result.relative.append(fields[0])
        elif kind == "origin":
            self._tree.locations[int(fields[0])] = (fields[1], int(fields[2]))
        elif not event.program:
            result.python.append((kind, fields[0], fields[1], int(fields[2])))
        elif (location := self._tree.location_of(event)) is not None:
            result.python.append((kind, fields[0], *((fields[1], int(fields[2])) if fields[1] else location)))

    def _native(self, event: Event, result: Requests) -> Iterator[Row]:
        if event.kind == "z":
            self._barred.add(event.text)
        if event.kind in "murk":
            self._written(event, result)
            return
        if event.kind == "o" and self._is_own_matter(event):
            return
        if event.kind == "o" and not event.failed and not self.is_made(path := absolute(event.text)):
            self._read.add(path)
        if event.kind == "o" and absolute(event.text) in self._seen_of(event):
            return
        location = self._location(event)
        if location is None:
            return
        if event.kind in "sdcyhv" and event.program and self._tree.is_unobserved_python(event.process):
            return  # it queries much while it starts; that it is not observed is reported
        if event.kind in _FILES:
            yield from self._file(event, location, result)
        elif event.kind == "z":
            yield ("undeclared", event.text, *location)
        elif event.kind == "v":
            yield ("variable", event.text, *location)
        elif event.kind in "xb":
            name = absolute(event.text) if "/" in event.text else event.text
            if not self.is_made(name):
                yield ("program", name, *location)
        elif event.kind in _STATES and (event.program or _BY_NAME in location[0] or _is_authors(location[0])):
            name = os.path.basename(self._tree.program_of(event)) or os.path.basename(location[0])
            yield (_STATES[event.kind], f"{event.text} in {name}", *location)

    def _is_own_matter(self, event: Event) -> bool:
        """Byte code, whose source counts, and the seed of a library in a Python that reports its own draws."""
        return event.text.endswith(".pyc") or (event.text in RANDOM and self._tree.is_observing(event.process))

    def _file(self, event: Event, location: tuple[str, int], result: Requests) -> Iterator[Row]:
        path, kind = absolute(event.text), _FILES[event.kind]
        if self.is_made(path):
            return
        if event.kind == "s" and (event.failed or not os.path.isfile(path)):
            kind = "exists"
        if kind == "file" and any(event.stamp):
            result.stamps.setdefault(path, event.stamp)
        if event.relative:
            result.relative.append(path)
        yield (kind, path, *location)

    def _seen_of(self, event: Event) -> Collection[str]:
        return self._seen if event.process == self._owner else self._seen_by.get(event.process, ())

    def _written(self, event: Event, result: Requests) -> None:
        if event.kind == "m":
            self._made.add(absolute(event.text))
            result.stamps.pop(absolute(event.text), None)
        elif event.kind == "k":
            source, _, target = event.text.partition("\0")
            result.stamps.pop(absolute(source), None)  # a further name changes the facts of a file
            self._made.add(absolute(target))
        elif event.kind == "u":
            self._removed.add(absolute(event.text))
        else:
            source, _, target = event.text.partition("\0")
            result.stamps.pop(absolute(target), None)  # what replaced it is the content that the next process finds
            if absolute(source) in self._made:
                self._made.add(absolute(target))
            self._removed.add(absolute(source))

    def _location(self, event: Event) -> tuple[str, int] | None:
        """The location of the code behind an event; None if it does not count."""
        if event.program:
            return self._tree.location_of(event)
        if event.origin == HIDDEN and event.kind == "o":
            return None  # the observer itself takes the state of a file
        library = self._callers.library_of(event.caller)
        if event.kind not in _ALWAYS and (is_standard(library) or _is_interpreter(library)):
            return None  # Python's own observer has noted it, if it counts
        return (library, 0)


def _is_authors(library: str) -> bool:
    """Whether a library is neither the system's nor installed."""
    folders = (sys.prefix, sys.base_prefix, *_SYSTEM)
    return bool(library) and not is_installed(library) and not library.startswith(folders)


def _is_interpreter(library: str) -> bool:
    return os.path.basename(library).startswith("libpython") or library == os.path.realpath(sys.executable)


def _starts(events: Collection[Event]) -> dict[int, int]:
    """For each Python that observes itself, the number of the event from which it does: before, it only starts."""
    return {
        event.process: number
        for number, event in enumerate(events)
        if event.kind == "P" and event.text.startswith("observing")
    }
