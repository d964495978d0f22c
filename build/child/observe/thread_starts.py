"""Thread starts: which code started each thread, for the requests of threads that run the standard library alone."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

Location = tuple[str, int]

UNKNOWN: Location = ("", 0)
"""The location for a thread that was started in an unknown way. Its requests count, as those of an author do."""


class ThreadStarts:
    """The locations of the code that started the threads of this process.

    >>> ThreadStarts().starter() is None  # the main thread, which nothing started
    True
    """

    def __init__(self) -> None:
        self._started: WeakKeyDictionary[threading.Thread, Location | None] = WeakKeyDictionary()
        self._before = set(threading._active)  # type: ignore[attr-defined]

    def add(self, function: Any, location: Location | None) -> None:
        """Remember the location of the code that starts a thread; ``function`` is what the thread is to run."""
        thread = getattr(function, "__self__", None)
        if isinstance(thread, threading.Thread):
            self._started[thread] = location

    def starter(self) -> Location | None:
        """The location for the requests of this thread; None if they do not count."""
        identity = threading.get_ident()
        thread = threading._active.get(identity)  # type: ignore[attr-defined]  # current_thread() would make one
        if thread in self._started:
            return self._started[thread]
        return None if thread is threading.main_thread() or identity in self._before else UNKNOWN
