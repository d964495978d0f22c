"""Values as people write them on a command line: ages, sizes, files."""

from __future__ import annotations

import re
from pathlib import Path

import typer

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}


def seconds(text: str) -> int | None:
    """An age in seconds; None for the empty text.

    >>> seconds("30d"), seconds("12h"), seconds("")
    (2592000, 43200, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,9})([mhdw])", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not an age: write it like 30d, 12h, 90m or 2w")
    return int(match[1]) * _SECONDS[match[2]]


def byte_count(text: str) -> int | None:
    """A size in bytes; None for the empty text.

    >>> byte_count("20G"), byte_count("1.5M"), byte_count("")
    (20000000000, 1500000, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([KMGT]?)B?", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size: write it like 20G or 500M")
    return int(float(match[1]) * _BYTES[match[2]])


def check_output_file(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work whose result it is for.

    >>> check_output_file("--svg", None)
    """
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise typer.BadParameter(f"{option} {path}: name a file in a folder that exists")
