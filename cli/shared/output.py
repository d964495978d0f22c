"""How results are written: aligned text for people, JSON for machines, progress for whoever waits."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TextIO


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows in aligned columns, two spaces apart; columns that hold only numbers stand to the right.

    >>> print(table(["op", "size"], [["scale", 512], ["rmsnorm", 73216]]))
    op        size
    scale      512
    rmsnorm  73216
    """
    cells = [list(map(str, row)) for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [bool(rows) and all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(head))]
    lines = (
        "  ".join(
            cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(row, widths, numeric, strict=True)
        )
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "variant"), count(12, "variant")
    ('1 variant', '12 variants')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(number: int) -> str:
    """A number of bytes, for people.

    >>> size(640), size(73216), size(3_500_000)
    ('640 B', '73.2 kB', '3.5 MB')
    """
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{number} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def as_json(data: Any) -> str:
    """What ``--json`` prints: sorted, indented, one trailing newline, nothing that JSON lacks.

    >>> as_json({"b": 1, "a": []})
    '{\\n  "a": [],\\n  "b": 1\\n}'
    """
    return json.dumps(data, sort_keys=True, indent=2, allow_nan=False)


def emit(data: Any, text: str, machine: bool) -> None:
    """Print a result on stdout: as JSON for a machine, else as text.

    >>> emit({"variants": 2}, "2 variants", machine=False)
    2 variants
    """
    print(as_json(data) if machine else text)


def plain(stream: TextIO) -> bool:
    """Whether to write whole lines only: not a terminal, or a CI log."""
    return not stream.isatty() or bool(os.environ.get("CI")) or os.environ.get("TERM") == "dumb"


@dataclass(slots=True)
class Progress:
    """Progress over a known number of steps, on stderr: one line that changes on a terminal, else a line a step.

    >>> with Progress(2, stream=sys.stdout) as progress:
    ...     progress.step("scale float16 sm_90a", "0.1 s")
    ...     progress.step("scale float32 sm_90a", "failed", keep=True)
    [1/2] scale float16 sm_90a: 0.1 s
    [2/2] scale float32 sm_90a: failed
    """

    total: int
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    done: int = 0
    _width: int = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            self._rewrite("")

    def step(self, what: str, note: str = "", *, keep: bool = False) -> None:
        """One more step is done. ``keep`` leaves its line standing on a terminal, for what went wrong."""
        self.done += 1
        line = f"[{str(self.done).rjust(len(str(self.total)))}/{self.total}] {what}{': ' if note else ''}{note}"
        if plain(self.stream):
            print(line, file=self.stream, flush=True)
        else:
            self._rewrite(line)
            if keep:
                self.stream.write("\n")
                self._width = 0

    def _rewrite(self, line: str) -> None:
        line = line[: columns(self.stream) - 1]
        self.stream.write(f"\r{line.ljust(self._width)}" + ("" if line else "\r"))
        self.stream.flush()
        self._width = len(line)


def columns(stream: TextIO) -> int:
    """How wide a terminal is."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80
