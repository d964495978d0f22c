"""The page of the errors, ``docs/errors.md``: what it says of each code. It travels in precast's wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from precast.loader.contract.format.config import suggest
from precast.loader.errors import ConfigError

_INSTALLED = Path(__file__).with_name("errors.md")
_IN_CHECKOUT = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
_ENTRY = re.compile(r"^### (?P<code>PC[A-Z][0-9]{2})\n(?P<text>.*?)(?=^#{2,3} |\Z)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"`(\w+)` of `([\w.]+)`")
_ALL = "run 'precast error' for all codes"
_TODO = "**What to do.**"


@dataclass(frozen=True, slots=True)
class Entry:
    """One code: the class of the error, where it is defined, what it means, a message of an example, what to do."""

    code: str
    name: str
    module: str
    meaning: str
    message: str
    todo: str


def page() -> str:
    """The text of the page: beside this file where precast is installed, in ``docs`` in a checkout."""
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
    known = {name: entry for entry in entries() for name in (entry.code, entry.name)}
    for name, entry in known.items():
        if name.lower() == word.strip().lower():
            return entry
    raise ConfigError(f"there is no error {word[:40]!r}{suggest(word[:40], known, _ALL)}")


def _entries(text: str) -> Iterator[Entry]:
    for found in _ENTRY.finditer(text):
        before, _, rest = found["text"].partition("```text\n")
        message, _, after = rest.partition("\n```\n")
        of = _NAME.search(before)
        name, module = of.groups() if of else ("", "")
        yield Entry(found["code"], name, module, _plain(before), message, _plain(after.partition(_TODO)[2]))


def _plain(markdown: str) -> str:
    """A paragraph without its marks: links are their words, and code is as it stands."""
    words = " ".join(markdown.split())
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("**", "").replace("`", "")
