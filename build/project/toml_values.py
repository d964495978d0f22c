"""TOML as values with their locations: a flat list of ``key = value``, which is all that a project file has.

Each statement is parsed on its own, so that its first line is known; ``tomllib`` gives locations of syntax errors only.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from precast.build.errors import Location, ManifestError
from precast.build.plan.yaml.reader import DEPTH_LIMIT, Node, clean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SIZE_LIMIT = 16 << 10
_MOST_LINES = 400  # each may be read again for every line of a statement that spans several
_WHERE = re.compile(r" \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)$")


def read_toml(data: bytes, file: str) -> Node:
    """The keys of a TOML text and their values, or a ManifestError with the location of what is wrong.

    >>> node = read_toml(b'# kernels\\noutput = "cache"\\n', "precast.toml")
    >>> node.value["output"].value, str(node.value["output"].at)
    ('cache', 'precast.toml:2:1')
    """
    start = Location(file, 1, 1)
    if len(data) > SIZE_LIMIT:
        raise ManifestError(f"{len(data)} bytes, more than the {SIZE_LIMIT} that precast reads: shorten it", start)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError("not UTF-8 text: save the file as UTF-8", Location(file, line, 1)) from None
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) > _MOST_LINES:
        raise ManifestError(f"{len(lines)} lines, more than the {_MOST_LINES} that precast reads: shorten it", start)
    _parsed("\n".join(lines), file)
    values: dict[str, Node] = {}
    number = 0
    while number < len(lines):
        first, table = number, None
        while table is None:
            number += 1
            table = _complete("\n".join(lines[first:number]))
        text = lines[first].lstrip()
        at = Location(file, first + 1, len(lines[first]) - len(text) + 1)
        if text.startswith("["):
            raise ManifestError("a project file has no tables: write 'key = value' lines", at)
        values |= {name: _node(value, at, 0) for name, value in table.items()}
    return Node(values, start)


def _parsed(text: str, file: str) -> None:
    """Raise the error of a text that is not TOML, with its location."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        where = _WHERE.search(message)
        line, column = (where[1], where[2]) if where and where[1] else (str(text.count("\n") + 1), "1")
        reason = _WHERE.sub("", message)
        raise ManifestError(f"not TOML: {reason}: correct the text", Location(file, int(line), int(column))) from None
    except (RecursionError, ValueError) as error:  # nesting without end; a number with too many digits
        raise ManifestError(f"not TOML: {error}: correct the text", Location(file, 1, 1)) from None


def _complete(text: str) -> dict[str, Any] | None:
    """The values of one statement; None where it continues in the next line."""
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    return values


def _node(value: object, at: Location, depth: int) -> Node:
    if depth > DEPTH_LIMIT:
        raise ManifestError(f"nests deeper than {DEPTH_LIMIT} levels: flatten it", at)
    if isinstance(value, str):
        return Node(clean(value, at), at, at)
    if isinstance(value, list):
        return Node(tuple(_node(item, at, depth + 1) for item in value), at, at)
    if isinstance(value, dict):
        return Node({name: _node(item, at, depth + 1) for name, item in value.items()}, at, at)
    if isinstance(value, (bool, int, float)):
        return Node(value, at, at)
    raise ManifestError("a date or a time: write text, a number, or a list", at)
