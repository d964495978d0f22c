"""Callers: the library whose code made a request, by an address in it."""

from __future__ import annotations

import bisect


class Callers:
    """The libraries that are mapped into this process.

    >>> Callers().library_of(1)
    ''
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._rows: list[tuple[int, str]] = []
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                span, _, rest = line.partition(" ")
                start, _, end = span.partition("-")
                slash = rest.find("/")
                self._starts.append(int(start, 16))
                self._rows.append((int(end, 16), rest[slash:].rstrip("\n") if slash >= 0 else ""))

    def library_of(self, address: int) -> str:
        """The path of the library; empty for code that has none."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._rows[at][0]:
            return ""
        return self._rows[at][1].removesuffix(" (deleted)")
