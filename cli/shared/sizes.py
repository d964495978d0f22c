"""Problems as they are written on the command line."""

from __future__ import annotations

import re

import typer

_SIZE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})=([0-9]{1,18})", re.ASCII)
_MOST = 32  # sizes of a problem, as in an index


def sizes(text: str) -> dict[str, int]:
    """The sizes of a problem, each of which may be zero.

    >>> sizes("rows=0,padding=8")
    {'rows': 0, 'padding': 8}
    """
    pairs = [_SIZE.fullmatch(item.strip()) for item in text.split(",")]
    found = {pair[1]: int(pair[2]) for pair in pairs if pair}
    if len(found) < len(pairs) or len(found) > _MOST:
        raise typer.BadParameter(f"{text[:80]!r} is not a problem: write each name once with its size, like m=4096,n=0")
    return found
