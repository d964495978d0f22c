"""The help of a command: headings, aligned columns, and lines that end at words, without a word left alone in the last.

Typer's own has boxes, in which 80 columns leave less than half of them for a text.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from precast.loader.command_line.text import terminal_width, wrap

WIDEST = 100
_JOINED = "\u2060"  # between words that stay on one line
_COLUMN = 28  # the most that the names of options take; below a longer one its text has a line of its own

Row = tuple[str, str]


def help_of(command: Any, ctx: Any, groups: Sequence[tuple[str, Sequence[Row]]] = ()) -> str:
    """The whole help of a command; ``groups`` are its subcommands, by their headings."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    parameters = [p for p in command.get_params(ctx) if not getattr(p, "hidden", False)]
    arguments = [record(p, ctx) for p in parameters if p.param_type_name == "argument"]
    options = [record(p, ctx) for p in parameters if p.param_type_name == "option"]
    commands = ["COMMAND [ARGS]..."] if groups else []
    usage = [ctx.command_path, "[OPTIONS]", *(name for name, _ in arguments), *commands]
    parts = [
        f"Usage: {' '.join(usage)}",
        *("\n".join(balanced(text, width)) for text in re.split(r"\n{2,}", command.help or "")),
        *(_columns(heading, rows, width) for heading, rows in groups),
        *([_columns("Arguments", arguments, width)] if arguments else []),
        _columns("Options", options, width),
        *([command.epilog] if command.epilog else []),
    ]
    text = "\n\n".join(parts)
    return text if terminal_width(sys.stdout) is None or os.environ.get("NO_COLOR") else _coloured(text)


def record(parameter: Any, ctx: Any) -> Row:
    """An argument or an option, with what it takes, and what it does.

    An argument that may be left out is in brackets, as in the usage.
    """
    name, text = parameter.get_help_record(ctx)
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        name = name if parameter.required else f"[{name}]"
    return re.sub(r"<([^<>]+)>", r"\1", name), re.sub(r" *\[required\]", "", text).replace("  [", " [")


def balanced(text: str, width: int) -> list[str]:
    """Lines of whole words, as few as possible; the last has no single word, where that takes no further line.

    What is in brackets stays on one line.

    >>> balanced("Only this target; may be repeated.", 25)
    ['Only this target; may', 'be repeated.']
    """
    text = re.sub(r"\[[^\]]+\]", lambda match: match[0].replace(" ", _JOINED), text)
    lines = wrap(text, width)
    for narrower in range(width - 1, max(width // 2, *map(len, text.split()), 0) - 1, -1):
        if len(lines) == 1 or " " in lines[-1] or lines[-1].startswith("["):
            break
        if len(tried := wrap(text, narrower)) > len(lines):
            break
        lines = tried
    return [line.replace(_JOINED, " ") for line in lines]


def _columns(heading: str, rows: Sequence[Row], width: int) -> str:
    """A heading, and below it names in a column, with their texts beside them."""
    column = max([len(name) for name, _ in rows if len(name) <= _COLUMN], default=0)
    return "\n".join([f"{heading}:", *(line for row in rows for line in _row(*row, column, width))])


def _row(name: str, text: str, column: int, width: int) -> Iterator[str]:
    first, *others = balanced(text, width - column - 4)
    if len(name) > column:
        yield f"  {name}"
        name = ""
    yield f"  {name:<{column}}  {first}".rstrip()
    yield from (f"  {'':<{column}}  {line}" for line in others)


def _coloured(text: str) -> str:
    """Headings and the names of commands in bold, options in a colour."""
    text = re.sub(r"^[A-Z][\w ()]*:(?=$| precast)", "\x1b[1m\\g<0>\x1b[0m", text, flags=re.MULTILINE)
    text = re.sub(r"^  (?!precast )([a-z][\w-]*)(?=  )", "  \x1b[1m\\1\x1b[0m", text, flags=re.MULTILINE)
    option = r"(?:(?<=^  )|(?<=^  -\w, )|(?<= / ))--?\w[\w-]*"
    return re.sub(option, "\x1b[36m\\g<0>\x1b[0m", text, flags=re.MULTILINE)
