"""Values as people write them on a command line: problems, keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

import typer

_SIZE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})=([0-9]{1,18})", re.ASCII)
_MOST_SIZES = 32  # of a problem, as in an index
_KEY = re.compile(r"[0-9a-f]{0,64}", re.ASCII)


def problem_sizes(text: str) -> dict[str, int]:
    """The sizes of a problem, each of which may be zero.

    >>> problem_sizes("rows=0,padding=8")
    {'rows': 0, 'padding': 8}
    """
    pairs = [_SIZE.fullmatch(item.strip()) for item in text.split(",")]
    sizes = {pair[1]: int(pair[2]) for pair in pairs if pair}
    if len(sizes) < len(pairs) or len(sizes) > _MOST_SIZES:
        raise typer.BadParameter(f"{text[:80]!r} is not a problem: write each name once with its size, like m=4096,n=0")
    return sizes


def problem_text(sizes: Mapping[str, int]) -> str:
    """A problem as ``problem_sizes`` reads it.

    >>> problem_text({"m": 16, "n": 4096})
    'm=16,n=4096'
    """
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def check_key_prefix(text: str) -> None:
    """Refuse what no key starts with.

    >>> check_key_prefix("3f2a91c0")
    """
    if not _KEY.fullmatch(text):
        raise typer.BadParameter(
            f"--key {text[:80]!r} is not the beginning of a key: keys have the digits and the letters a to f"
        )
