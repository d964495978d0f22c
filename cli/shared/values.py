"""Values as people write them on a command line: ages, sizes, problems, keys, files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import typer

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_SIZE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})=([0-9]{1,18})", re.ASCII)
_MOST_SIZES = 32  # of a problem, as in an index
_KEY = re.compile(r"[0-9a-f]{0,64}", re.ASCII)


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


def check_output_file(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work whose result it is for.

    >>> check_output_file("--svg", None)
    """
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise typer.BadParameter(f"{option} {path}: name a file in a folder that exists")
