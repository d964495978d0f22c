"""The picture of a first run: what is typed, what is printed, and how long each command took."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pictures.svg import FULL, Picture

TITLE = "A terminal: precast new, build and wheel, with what they print and their seconds"
PAD, LINE = 14, 16
LETTER = 6.7  # of a fixed width, at the size of a small text
SHOWN = 3  # lines of a list of like ones


def picture(run: Sequence[Mapping[str, Any]], width: int = FULL) -> str:
    """The terminal of some commands.

    >>> shown = picture([{"typed": "precast new x", "seconds": 0.5, "lines": ["wrote x.py"]}])
    >>> "precast new x" in shown and "wrote x.py" in shown and "0.5 s" in shown
    True
    """
    most = int((width - 2 * PAD) / LETTER)
    rows = [row for command in run for row in _rows(command, most)][:-1]
    drawn = Picture(width, 2 * PAD + LINE * len(rows), TITLE)
    drawn.frame(0.5, 0.5, width - 1, drawn.height - 1)
    for at, (text, seconds) in enumerate(rows):
        y = PAD + LINE * at + 11.0
        if seconds:
            drawn.text(PAD, y, "$", "small", fill="ours", more="mono bold")
            drawn.text(PAD + 2 * LETTER, y, text, "small", more="mono bold")
            drawn.text(width - PAD, y, seconds, "small", fill="soft", at="end", more="mono")
        elif text:
            drawn.text(
                PAD + LETTER * (len(text) - len(text.lstrip())), y, text.lstrip(), "small", fill="soft", more="mono"
            )
    return drawn.to_svg()


def _rows(command: Mapping[str, Any], most: int) -> Iterator[tuple[str, str]]:
    """A command with its seconds, its lines, and an empty one."""
    yield command["typed"], f"{command['seconds']} s"
    yield from ((_fitted(line, most), "") for line in _shorter(command["lines"]) if line)
    yield "", ""


def _shorter(lines: Sequence[str]) -> list[str]:
    """The lines, in which those of variants are few.

    >>> _shorter(["begun", *(f"[{at}/8] x" for at in range(1, 9)), "done"])
    ['begun', '[1/8] x', '[2/8] x', '...', '[8/8] x', 'done']
    """
    counted = [line for line in lines if re.match(r"\[\d+/\d+\]", line)]
    left_out = counted[SHOWN - 1 : -1]
    return ["..." if line in left_out[:1] else line for line in lines if line not in left_out[1:]]


def _fitted(line: str, most: int) -> str:
    """A line that is not longer than the terminal is wide: without its middle.

    >>> _fitted("dist/precast_cache_scaled-0.1-py3-none-any.whl", 24)
    'dist/precas…one-any.whl'
    """
    half = most // 2 - 1
    return line if len(line) <= most else f"{line[:half]}\N{HORIZONTAL ELLIPSIS}{line[-half:]}"
