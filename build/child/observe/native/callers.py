"""Callers: the library whose code made a request, by an address in it."""

from __future__ import annotations

import bisect


class Callers:
    """The libraries that are mapped into this process. The map is read when an address is not in it.

    >>> Callers().library_of(1)
    ''
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._rows: list[tuple[int, str]] = []
        self._unknown: set[int] = set()

    def library_of(self, address: int) -> str:
        """The path of the library; empty for code that has none."""
        library = self._find(address)
        if library is None and address not in self._unknown:
            self._read()
            library = self._find(address)
            if library is None:
                self._unknown.add(address)
        return library or ""

    def _find(self, address: int) -> str | None:
        at = bisect.bisect_right(self._starts, address) - 1
        return self._rows[at][1] if at >= 0 and address < self._rows[at][0] else None

    def _read(self) -> None:
        self._starts, self._rows = [], []
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                span, _, rest = line.partition(" ")
                slash = rest.find("/")
                if slash < 0:
                    continue
                start, _, end = span.partition("-")
                self._starts.append(int(start, 16))
                self._rows.append((int(end, 16), rest[slash:].rstrip("\n").removesuffix(" (deleted)")))
