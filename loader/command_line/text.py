"""Text for people: aligned tables, lines wrapped at words on a terminal, numbers with their nouns.

Tables are laid out here and not by a library: in a pipe or a file each row is one whole line, however long, so that it
can be searched and cut; and on a narrow terminal words stay whole.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TextIO

from precast.loader.terminal_text import on_one_line

_GAP = 2
_NARROWEST = 12  # the least width of a column that is narrowed to fit a terminal


def table(head: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None) -> str:
    """Rows in aligned columns, two spaces apart; columns of numbers are aligned to the right.

    ``width`` is by default the terminal's; without a terminal there is no limit. In a table that is too wide, cells
    have several lines; if the columns cannot be that narrow, each row is a block of ``name: value`` lines.

    >>> print(table(["op", "size"], [["scale", 512], ["rmsnorm", 73216]]))
    op        size
    scale      512
    rmsnorm  73216
    >>> print(table(["op", "config"], [["scale", "dtype: bfloat16, threads: 128"]], width=24))
    op     config
    scale  dtype: bfloat16,
           threads: 128
    """
    width = width or terminal_width(sys.stdout)
    cells = [list(map(on_one_line, row)) for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if width is not None and _total(widths) > width:
        narrowed = _narrowed(cells, widths, width)
        if narrowed is None:
            return _blocks(cells, width)
        widths = narrowed
    numeric = [bool(rows) and all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(head))]
    return "\n".join(line for row in cells for line in _row(row, widths, numeric))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _narrowed(cells: Sequence[Sequence[str]], widths: Sequence[int], width: int) -> list[int] | None:
    """Widths that fit, with the widest columns narrowed first; None if columns would be too narrow."""
    least = [min(w, max(_NARROWEST, len(name))) for w, name in zip(widths, cells[0], strict=True)]
    if _total(least) > width:
        return None
    fitting = list(widths)
    while _total(fitting) > width:
        widest = max(range(len(fitting)), key=lambda i: (fitting[i] > least[i], fitting[i]))
        fitting[widest] -= 1
    return fitting


def _row(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> list[str]:
    columns = [[cell] if len(cell) <= w else wrap(cell, w) for cell, w in zip(row, widths, strict=True)]
    return [
        (" " * _GAP)
        .join(cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, numeric, strict=True))
        .rstrip()
        for line in zip_longest(*columns, fillvalue="")
    ]


def _blocks(cells: Sequence[Sequence[str]], width: int) -> str:
    """Each row as lines of ``name: value``, with an empty line between rows."""
    head, *rows = cells
    longest = max(map(len, head)) + 1
    room = max(width - longest - 1, _NARROWEST)
    return "\n\n".join(
        "\n".join(
            f"{f'{name}:' if i == 0 else '':<{longest}} {line}".rstrip()
            for name, cell in zip(head, row, strict=True)
            for i, line in enumerate(wrap(cell, room))
        )
        for row in rows
    )


def wrap(text: str, width: int) -> list[str]:
    """A text in lines of whole words; the middle of a word that is longer than a line is cut out.

    >>> wrap("built for sm_90a", 10)
    ['built for', 'sm_90a']
    """
    words = " ".join(elide(word, width) for word in text.split())
    return textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False) or [""]


def elide(text: str, width: int) -> str:
    """A text that fits a width: its beginning, an ellipsis and its end.

    >>> elide("attention(dtype=bfloat16, hdim=128)", 20)
    'attention… hdim=128)'
    """
    if len(text) <= width:
        return text
    left, right = (width - 1) // 2, width - 1 - (width - 1) // 2
    return f"{text[:left]}…{text[len(text) - right :]}"


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "variant"), count(12, "variant")
    ('1 variant', '12 variants')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(number: int) -> str:
    """A number of bytes, with its unit.

    >>> size(640), size(73216), size(3_500_000)
    ('640 B', '73.2 kB', '3.5 MB')
    """
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{number} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def folded(text: str, width: int) -> str:
    """A text whose lines are wrapped at words to a width; a longer word stays whole.

    >>> print(folded("error: no such file\\n    at line 12", 14))
    error: no such
    file
        at line 12
    """
    lines = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if len(line) <= width:
            lines.append(line)
        else:
            lines += textwrap.wrap(
                line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
    return "\n".join(lines)


def plain(stream: TextIO) -> bool:
    """Whether a stream takes whole lines only: it is not a terminal, or it is the log of a CI."""
    return not stream.isatty() or bool(os.environ.get("CI")) or os.environ.get("TERM") == "dumb"


def terminal_width(stream: TextIO) -> int | None:
    """The width of a stream's terminal, or COLUMNS if that is set; None if the stream is not a terminal."""
    if plain(stream):
        return None
    columns = os.environ.get("COLUMNS", "")
    try:
        width = int(columns) if columns.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except OSError:
        width = 80
    return max(width or 80, 20)
