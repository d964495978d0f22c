"""Ages and sizes as people write them in options."""

from __future__ import annotations

import re

import typer

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}


def seconds(text: str) -> int | None:
    """An age in seconds; None where none is given.

    >>> seconds("30d"), seconds("12h"), seconds("")
    (2592000, 43200, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,9})([mhdw])", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not an age: write it like 30d, 12h, 90m or 2w")
    return int(match[1]) * _SECONDS[match[2]]


def bytes_of(text: str) -> int | None:
    """A size in bytes; None where none is given.

    >>> bytes_of("20G"), bytes_of("1.5M"), bytes_of("")
    (20000000000, 1500000, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([KMGT]?)B?", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size: write it like 20G or 500M")
    return int(float(match[1]) * _BYTES[match[2]])
