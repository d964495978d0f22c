"""The end of what a child process prints, kept apart for each request, in bounded memory."""

from __future__ import annotations

import threading

KEPT = 16_000


class OutputTail:
    """Splits a stream at a mark that the child prints around every request, and keeps the end of each section.

    >>> tail = OutputTail(b"|")
    >>> for chunk in (b"import noise|one", b" and more||t", b"wo|"):
    ...     tail.feed(chunk)
    >>> tail.text(0), tail.text(1)
    ('one and more', 'two')
    """

    def __init__(self, mark: bytes, kept: int = KEPT) -> None:
        self._mark = mark
        self._kept = kept
        self._carry = b""
        self._sections: dict[int, bytearray] = {0: bytearray()}
        self._at = 0
        self._change = threading.Condition()

    def feed(self, chunk: bytes) -> None:
        """Add output. A mark may arrive in pieces."""
        with self._change:
            first, *others = (self._carry + chunk).split(self._mark)
            self._append(first)
            for piece in others:
                self._at += 1
                self._sections[self._at] = bytearray()
                self._sections.pop(self._at - 4, None)
                self._append(piece)
            self._hold_back()
            self._change.notify_all()

    def text(self, request: int, wait: float = 0.0) -> str:
        """The output during a request, counted from 0. Waits up to ``wait`` seconds for the rest of it."""
        section = 2 * request + 1
        with self._change:
            self._change.wait_for(lambda: self._at > section, wait)
            content = bytes(self._sections.get(section, b"")) + (self._carry if self._at == section else b"")
        return content[-self._kept :].decode(errors="replace")

    def last(self) -> str:
        """The end of the newest section that is not empty: the last output of a process before it ended."""
        with self._change:
            content = next((s for _, s in sorted(self._sections.items(), reverse=True) if s.strip()), b"")
            return bytes(content)[-self._kept :].decode(errors="replace")

    def _append(self, piece: bytes) -> None:
        section = self._sections[self._at]
        section += piece[-2 * self._kept :]
        if len(section) > 2 * self._kept:
            del section[: -self._kept]

    def _hold_back(self) -> None:
        """Hold back the beginning of a mark that has not fully arrived."""
        section, mark = self._sections[self._at], self._mark
        size = next((n for n in range(min(len(mark) - 1, len(section)), 0, -1) if section.endswith(mark[:n])), 0)
        self._carry = bytes(section[len(section) - size :])
        del section[len(section) - size :]
