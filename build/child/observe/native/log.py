"""The log of the observer's library: a file in memory that this process and all that it starts write their events to.

``build/link/observer`` is the other side. Events are appended by one atomic step each; closed descriptors, forks and
the ends of processes lose nothing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from os import getpid
from typing import NamedTuple

SIZE = 64 << 20  # mapped; memory is used for what is written
HIDDEN = 1  # the origin of programs that do not count
_MAGIC = 0x707265636F627331
_HEADER = struct.Struct("<QQQQQ")
_EVENT = struct.Struct("<IIiiIBBBBQ4qI4x")
_COMPLETE = 4


class Event(NamedTuple):
    """One event. ``program`` means that its process was started as a program of its own, and ``origin`` by whom;
    ``relative`` that its path depends on the working folder of the build."""

    kind: str
    text: str
    process: int
    parent: int
    origin: int
    failed: bool
    program: bool
    relative: bool
    caller: int
    stamp: tuple[int, int, int, int]


class NativeLog:
    """The log of this process. ``find`` returns None where the library is not loaded."""

    def __init__(self, library: ctypes.CDLL, root: str) -> None:
        self._library, self._root = library, root.encode()
        self.path = os.fsdecode(library.precast_observer_library())
        self.allowed: tuple[str, ...] = ()  # the folders that may be read; everything if there are none
        self._memory: mmap.mmap | None = None
        self._read = _HEADER.size
        self.complete = True

    @classmethod
    def find(cls, root: str) -> NativeLog | None:
        """The interface to the library in this process; ``root`` is the folder that precast is imported from."""
        library = ctypes.CDLL(None)
        if not hasattr(library, "precast_observer_log"):
            return None
        library.precast_observer_log.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p]
        library.precast_observer_note.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        library.precast_observer_origin.argtypes = [ctypes.c_uint32]
        library.precast_observer_origin.restype = ctypes.c_uint32
        library.precast_observer_library.restype = ctypes.c_char_p
        library.precast_observer_loads.restype = ctypes.c_ulonglong
        return cls(library, root)

    def new_file(self) -> tuple[int, str]:
        """A new log, for ``use`` in this process or in one that is forked next: its descriptor, and its path."""
        file = os.memfd_create("precast-log", os.MFD_CLOEXEC)
        try:
            os.ftruncate(file, SIZE)
            text = b"".join(os.fsencode(folder) + b"\0" for folder in self.allowed)
            start = (_HEADER.size + len(text) + 7) & ~7
            os.pwrite(file, _HEADER.pack(_MAGIC, start, 0, SIZE, len(text)) + text, 0)
        except OSError:
            os.close(file)
            raise
        return file, f"/proc/{getpid()}/fd/{file}"

    def use(self, file: int, path: str) -> bool:
        """From now on, events of this process and its children are written to this log."""
        if self._library.precast_observer_log(file, path.encode(), self._root) != 0:
            return False
        self._memory = mmap.mmap(file, SIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        self._read = _HEADER.unpack_from(self._memory)[1]
        return True

    def be_quiet(self) -> None:
        """From now on, what the interpreter queries is not logged, except for files that it opens."""
        self._library.precast_observer_quiet()

    def set_origin(self, origin: int) -> int:
        """Programs that this thread starts next are started by this request. Returns the one before."""
        return int(self._library.precast_observer_origin(origin))

    @property
    def moved(self) -> bool:
        """Whether this process has changed its working folder to an absolute path."""
        return bool(self._library.precast_observer_moved())

    @property
    def loads(self) -> int:
        """How many libraries this process has loaded since it began, closed ones included."""
        return int(self._library.precast_observer_loads())

    def note(self, *fields: object) -> None:
        """Write an event of Python, for the process that reads the log."""
        data = "\0".join(map(str, fields)).encode(errors="surrogateescape")
        self._library.precast_observer_note(data, len(data))

    def events(self) -> Iterator[Event]:
        """The events since the last call."""
        if self._memory is None:
            return
        _, end, lost, size, _ = _HEADER.unpack_from(self._memory)
        self.complete &= lost == 0
        end = min(end, size)
        while self._read + _EVENT.size <= end:
            fields = _EVENT.unpack_from(self._memory, self._read)
            length = fields[0]
            if not length:  # a process ended just when it had claimed this space
                self.complete = False
                return
            if fields[1]:
                yield _event(fields, self._memory[self._read + _EVENT.size : self._read + _EVENT.size + fields[-1]])
            self._read += length


def _event(fields: tuple[int, ...], text: bytes) -> Event:
    _, _, process, parent, origin, kind, failed, program, relative, caller, *stamp, _ = fields
    first, second, third, fourth = stamp
    return Event(
        kind=chr(kind),
        text=text.decode(errors="surrogateescape"),
        process=process,
        parent=parent,
        origin=origin,
        failed=bool(failed),
        program=bool(program),
        relative=bool(relative),
        caller=caller,
        stamp=(first, second, third, fourth),
    )


def close_file(file: int) -> None:
    """Close a log that no new process needs any more."""
    with suppress(OSError):
        os.close(file)
