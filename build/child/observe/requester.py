"""The requester: the code that makes a request, by the frames that are running."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from precast.build.child.observe.code_locations import HIDDEN, SKIP, location_of_code
from precast.build.child.observe.thread_starts import UNKNOWN, Location, ThreadStarts


class Requester:
    """Finds the innermost frame outside of the standard library and precast; in a thread that runs the standard library
    alone, the code that started the thread.

    >>> len(Requester().location() or ())  # the file and the line of what runs this example
    2
    """

    def __init__(self) -> None:
        self._threads = ThreadStarts()
        self._locations: dict[CodeType, str] = {}

    def add_thread(self, function: Any, location: Location | None) -> None:
        """The code there starts a thread that runs this function."""
        self._threads.add(function, location)

    def location(self, *, started: bool = False) -> Location | None:
        """The file and the line; None for a request that does not count.

        A Python that was ``started`` may run the standard library alone, or the code of its option -c.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            location = self._locations.get(code)
            if location is None:
                location = self._locations[code] = location_of_code(frame)
            if location is HIDDEN:
                return None
            if location is not SKIP:
                return location, frame.f_lineno
            frame = frame.f_back
        return self._threads.starter() or (UNKNOWN if started else None)
