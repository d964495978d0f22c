"""Output of results: aligned text for people, JSON for programs.

Messages are wrapped at words on a terminal; results other than tables are printed as they are, so that a command or a
path in them can be copied.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import typer

from precast.cli.shared.verbosity import verbosity
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


def print_result(data: Any, text: str, json_output: bool, heads: Sequence[Sequence[str]] = ()) -> None:
    """Print a result on stdout, as JSON or as text, in which control characters are escaped: a cache may have any.

    ``heads`` are those of the text's tables, which a terminal shows in bold.

    >>> print_result({"variants": 2}, "2 variants", False)
    2 variants
    """
    if json_output:
        print(as_json(data))
        return
    text = visible(installable(text, checkout()))
    print(text if terminal_width(sys.stdout) is None else coloured(text, heads))


@functools.cache
def checkout() -> str:
    """The folder that precast was installed from by pip; empty if it came from an index."""
    try:
        origin = json.loads(metadata.distribution("precast").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    return unquote(urlsplit(origin["url"]).path) if "dir_info" in origin else ""


PARTS = {
    "attach": ("attach",), "emulate": ("emulator", "measure"), "native": ("native",),
    **dict.fromkeys(("hub", "publish", "remote", "sign"), ("publish",)),
    **dict.fromkeys(("cutlass", "export", "flash-attention", "flashinfer", "measure", "quack", "torch"), ("measure",)),
}  # fmt: skip
"""The folders of the distributions that each extra brings."""


def installable(text: str, folder: str) -> str:
    """A text in which pip's commands for extras of precast name the folder that it was installed from, if any.

    >>> installable("pip install 'precast[torch]'", ""), installable("pip install 'precast[attach]'", "/src/precast")
    ("pip install 'precast[torch]'", "pip install /src/precast/attach '/src/precast[attach]'")
    """

    def local(match: re.Match[str]) -> str:
        folders = dict.fromkeys(part for extra in match[1].split(",") for part in PARTS.get(extra, ()))
        parts = "".join(f"{folder}/{part} " for part in folders)
        return f"pip install {parts}'{folder}[{match[1]}]'"

    return re.sub(r"pip install 'precast\[([\w,-]+)\]'", local, text) if folder else text


def print_message(text: str) -> None:
    """Print a message on stderr; on a terminal its lines are wrapped at words and keep their indentation."""
    if not verbosity.prints(text):
        return
    width, text = terminal_width(sys.stderr), installable(text, checkout())
    print(text if width is None else coloured(folded(cut(text, width), width)), file=sys.stderr, flush=True)


def cut(text: str, width: int) -> str:
    """A text in which a line of a file ends at a width: a caret below it stays below its place.

    >>> print(cut("  9 | dtype: bfloat17  # a comment\\n    |        ^", 24))
      9 | dtype: bfloat17  …
        |        ^
    """
    lines = r"^ *\d+ \| .*(?=\n +\| +\^)"
    return re.sub(lines, lambda line: f"{line[0][: width - 1]}…" if len(line[0]) > width else line[0], text, flags=re.M)


_COLOURS = {
    "1;31": r"^(?:(?:error|missing|damaged):|fail(?=  )|-(?= )|[1-9]\d* failures?\b"
    r"|(\d+) of (?!\1 )\d+ artifacts? present$)",
    "1;33": r"^(?:(?:warning|skipped|extra|cache):|warn(?=  )|~(?= ))|\b[1-9]\d* (?:warnings?|skipped)$",
    "1;32": r"^(?:ok(?=  )|\+(?= )|0 failures\b|(\d+) of \1 \w+ present$|the same, byte for byte\b)",
    "36": r"^[0-9a-f]{12}(?=  )",
    "1": r"^[a-z][\w.]*(?:, [\w.]+)*(?=  \()",
}


def coloured(text: str, heads: Sequence[Sequence[str]] = ()) -> str:
    """A text for a terminal: the words and marks that begin a line, such as ``error:``, in colour, and carets.

    Heads of tables, keys and the names of ops are set off, too.

    >>> coloured("error: no such file") if not os.environ.get("NO_COLOR") else "..."
    '\\x1b[1;31merror:\\x1b[0m no such file'
    """
    if os.environ.get("NO_COLOR"):
        return text
    lines = {rf"^ *{' +'.join(map(re.escape, head))}$" for head in heads}
    for colour, words in (*_COLOURS.items(), *(("1", line) for line in sorted(lines))):
        text = re.sub(words, f"\x1b[{colour}m\\g<0>\x1b[0m", text, flags=re.MULTILINE)
    return re.sub(r"^( +\| +)\^$", "\\1\x1b[1;31m^\x1b[0m", text, flags=re.MULTILINE)


def check_output_file(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work whose result it is for.

    >>> check_output_file("--svg", None)
    """
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise typer.BadParameter(f"{option} {path}: name a file in a folder that exists")
