"""The rate of a build on a terminal: what is compiling now, how fast it goes, how long it takes; else plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TextIO

from precast.cli.shared.output import columns, plain


@dataclass(slots=True)
class Rate:
    """Progress over variants of which several are at work at once, on stderr.

    >>> with Rate(3, stream=sys.stdout) as rate:
    ...     rate.skip()
    ...     rate.begin("scale float16 sm_90a")
    ...     rate.end("scale float16 sm_90a", "0.10 s")
    [2/3] scale float16 sm_90a: 0.10 s
    """

    total: int
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    _skipped: int = 0
    _now: dict[str, None] = field(default_factory=dict)
    _begun: float | None = None
    _drawn: bool = False

    def __enter__(self) -> Rate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._erase()

    def skip(self) -> None:
        """One was there already: it counts, and says nothing of the rate."""
        self.done += 1
        self._skipped += 1

    def begin(self, what: str) -> None:
        """A worker has begun on one."""
        self._begun = self.clock() if self._begun is None else self._begun
        self._now[what] = None
        self._draw()

    def end(self, what: str, note: str, *, keep: bool = False) -> None:
        """One is done. ``keep`` leaves a line standing on a terminal too, for what went wrong."""
        self.done += 1
        self._now.pop(what, None)
        line = f"[{str(self.done).rjust(len(str(self.total)))}/{self.total}] {what}: {note}"
        if plain(self.stream):
            print(line, file=self.stream, flush=True)
        else:
            if keep:
                self._erase()
                print(line, file=self.stream)
            self._draw()

    def line(self) -> str:
        """What the terminal shows now."""
        parts = [f"[{self.done}/{self.total}]"]
        settled = self.done - self._skipped
        if settled and self._begun is not None:
            each = max(self.clock() - self._begun, 1e-6) / settled
            left = round(each * (self.total - self.done))
            parts += [f"{1 / each:.1f}/s,", f"{left // 60}:{left % 60:02} left:"]
        return " ".join([*parts, "; ".join(self._now)])

    def _draw(self) -> None:
        if not plain(self.stream):
            self.stream.write(f"\r\x1b[K{self.line()[: columns(self.stream) - 1]}")
            self.stream.flush()
            self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self._drawn = False
