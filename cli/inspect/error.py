"""Explain an error by its code, with what to do about it.

The text is that of docs/errors.md, and needs no network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import folded, print_result, table, terminal_width
from precast.loader.contract.format.config import suggest
from precast.loader.errors import ConfigError

_INSTALLED = Path(__file__).with_name("errors.md")
_IN_CHECKOUT = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
_ENTRY = re.compile(r"^### (?P<code>PC[A-Z][0-9]{2})\n(?P<text>.*?)(?=^#{2,3} |\Z)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"`(\w+)` of `([\w.]+)`")
_TODO = "**What to do.**"


@dataclass(frozen=True, slots=True)
class Entry:
    """A code of ``docs/errors.md``: the error's class and module, its meaning, an example message, what to do."""

    code: str
    name: str
    module: str
    meaning: str
    message: str
    todo: str


def command(
    code: Annotated[
        str, typer.Argument(help="The code, such as PCL07, or the name of the class; without it, all are listed.")
    ] = "",
    as_json: options.Json = False,
) -> None:
    if not code:
        rows = [(entry.code, entry.name, _sentence(entry.meaning)) for entry in entries()]
        print_result([asdict(entry) for entry in entries()], table(["code", "error", "meaning"], rows), as_json)
        return
    entry = find(code)
    print_result(asdict(entry), folded("\n".join(_lines(entry)), terminal_width(sys.stdout) or 100), as_json)


def page() -> str:
    """The text of the page: beside this file if precast is installed, in ``docs`` in a checkout."""
    path = _INSTALLED if _INSTALLED.is_file() else _IN_CHECKOUT
    return path.read_text(encoding="utf-8")


def entries() -> tuple[Entry, ...]:
    """Every entry, in the order of the page.

    >>> entries()[0].name
    'PrecastError'
    """
    return tuple(_entries(page()))


def find(word: str) -> Entry:
    """The entry of a code, or of the name of a class, in any case.

    >>> find("pcl07").name, find("VariantNotFound").code
    ('VariantNotFound', 'PCL07')
    """
    by_name = {name: entry for entry in entries() for name in (entry.code, entry.name)}
    for name, entry in by_name.items():
        if name.lower() == word.strip().lower():
            return entry
    hint = suggest(word[:40], by_name, "run 'precast error' for all codes")
    raise ConfigError(f"there is no error {word[:40]!r}{hint}")


def _lines(entry: Entry) -> Iterator[str]:
    yield f"{entry.code} {entry.name}"
    yield ""
    yield entry.meaning
    if entry.message:
        yield ""
        yield "An example:"
        yield from (f"    {line}".rstrip() for line in entry.message.splitlines())
    yield ""
    yield f"What to do: {entry.todo}"


def _sentence(meaning: str) -> str:
    """The first sentence of a meaning, after the names of the class and its module."""
    return meaning.partition(". ")[2].partition(". ")[0].rstrip(".")


def _entries(text: str) -> Iterator[Entry]:
    for match in _ENTRY.finditer(text):
        before, _, rest = match["text"].partition("```text\n")
        message, _, after = rest.partition("\n```\n")
        names = _NAME.search(before)
        name, module = names.groups() if names else ("", "")
        yield Entry(match["code"], name, module, _plain(before), message, _plain(after.partition(_TODO)[2]))


def _plain(markdown: str) -> str:
    """A paragraph without Markdown's marks."""
    words = " ".join(markdown.split())
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("**", "").replace("`", "")
