"""Excerpts: the line of a file that an error is about, with a caret below the place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from precast.build.errors import Location, ManifestError
from precast.cli.shared.output import count
from precast.loader.errors import PrecastError

_MOST_LINES, _MOST_CHARACTERS = 38, 3900  # a screen
_WIDEST = 200
_MOST_BYTES = 1 << 20


def error_text(error: PrecastError) -> str:
    """The message of an error and its code; of a manifest's, all errors, each with its line.

    >>> error_text(PrecastError("no such cache: name one"))
    'error: no such cache: name one (PCL00)'
    """
    return manifest_error(error) if isinstance(error, ManifestError) else f"error: {error} ({error.code})"


def manifest_error(error: ManifestError) -> str:
    """All errors of a manifest, each with its line."""
    every = (error, *error.others)
    text = ""
    for number, entry in enumerate(every):
        block = "\n".join((_headline(entry), *excerpt(entry.location)))
        longer = f"{text}\n{block}" if text else block
        if number and (longer.count("\n") >= _MOST_LINES - 1 or len(longer) > _MOST_CHARACTERS):
            return f"{text}\nand {count(len(every) - number, 'more error')}: correct these first"
        text = longer
    return text


def _headline(error: ManifestError) -> str:
    return f"error: {error.own_text} ({error.code})"


def excerpt(location: Location) -> Iterator[str]:
    """The line at a location, and a caret; nothing where the file cannot be read."""
    try:
        with Path(location.file).open("rb") as file:
            lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return
    if not (0 < location.line <= len(lines) and 0 < location.column <= len(lines[location.line - 1]) + 1):
        return
    line = "".join(c if c.isprintable() else " " for c in lines[location.line - 1])
    if not line.strip() or location.column > _WIDEST:
        return
    number = str(location.line)
    yield f"  {number} | {line[:_WIDEST].rstrip()}"
    yield f"  {' ' * len(number)} | {' ' * (location.column - 1)}^"
