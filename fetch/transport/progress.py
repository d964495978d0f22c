"""Progress of a fetch or a push: one line that changes on a terminal, whole lines now and then in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from precast.loader.command_line.text import plain, size

_TERMINAL, _LOG = 0.2, 10.0  # seconds between two lines


class Progress:
    """Bytes that come or go. Threads may report at once.

    >>> with Progress(sys.stdout) as progress:
    ...     progress.report("reading the index")
    reading the index
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._terminal = not plain(self._stream)
        self._lock = threading.Lock()
        self._done, self._total, self._width = 0, 0, 0
        self._begun = self._shown = clock()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def report(self, text: str) -> None:
        """A line of its own."""
        with self._lock:
            self._clear()
            print(text, file=self._stream, flush=True)

    def expect(self, number: int) -> None:
        """So many bytes more are to come."""
        with self._lock:
            self._total += number

    def advance(self, number: int) -> None:
        """So many bytes have come."""
        with self._lock:
            self._done += number
            now = self._clock()
            if now - self._shown >= (_TERMINAL if self._terminal else _LOG):
                self._shown = now
                self._show(now)

    def _show(self, now: float) -> None:
        rate = self._done / max(now - self._begun, 1e-3)
        text = f"{size(self._done)} of {size(max(self._total, self._done))}, {size(int(rate))}/s"
        if self._terminal:
            self._stream.write("\r" + text.ljust(self._width))
            self._stream.flush()
            self._width = len(text)
        else:
            print(text, file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._terminal and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0
