"""Output of results: aligned text for people, JSON for programs.

Messages are wrapped at words on a terminal; results other than tables are printed as they are, so that a command or a
path in them can be copied.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from precast.loader.command_line.text import count, elide, folded, plain, size, table, terminal_width, wrap
from precast.loader.terminal_text import visible

__all__ = [
    "as_json",
    "count",
    "elide",
    "folded",
    "plain",
    "print_message",
    "print_result",
    "size",
    "table",
    "terminal_width",
    "wrap",
]


def as_json(data: Any) -> str:
    """The text that ``--json`` prints: sorted keys, indented, without NaN and infinities.

    >>> as_json({"b": 1, "a": []})
    '{\\n  "a": [],\\n  "b": 1\\n}'
    """
    return json.dumps(data, sort_keys=True, indent=2, allow_nan=False)


def print_result(data: Any, text: str, json_output: bool) -> None:
    """Print a result on stdout, as JSON or as text, in which control characters are escaped: a cache may have any.

    >>> print_result({"variants": 2}, "2 variants", False)
    2 variants
    """
    print(as_json(data) if json_output else visible(text))


def print_message(text: str) -> None:
    """Print a message on stderr; on a terminal its lines are wrapped at words and keep their indentation."""
    width = terminal_width(sys.stderr)
    print(text if width is None else coloured(folded(text, width)), file=sys.stderr, flush=True)


def coloured(text: str) -> str:
    """A message for a terminal: the words that begin a line with ``error:`` and the like in colour, and carets.

    >>> coloured("error: no such file") if not os.environ.get("NO_COLOR") else "..."
    '\\x1b[1;31merror:\\x1b[0m no such file'
    """
    if os.environ.get("NO_COLOR"):
        return text
    text = re.sub(r"^error:", "\x1b[1;31merror:\x1b[0m", text, flags=re.MULTILINE)
    text = re.sub(r"^(warning|skipped):", "\x1b[1;33m\\1:\x1b[0m", text, flags=re.MULTILINE)
    return re.sub(r"^( +\| +)\^$", "\\1\x1b[1;31m^\x1b[0m", text, flags=re.MULTILINE)
