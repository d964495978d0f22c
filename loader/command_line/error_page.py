"""The page of errors, ``docs/errors.md``, as values: what each code means, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from precast.loader.errors import ConfigError

_INSTALLED = Path(__file__).with_name("errors.md")
_IN_CHECKOUT = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
_ENTRY = re.compile(r"^### (?P<code>PC[A-Z][0-9]{2})\n(?P<text>.*?)(?=^#{2,3} |\Z)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"`(precast\.[\w.]+)\.(\w+)`")


@dataclass(frozen=True, slots=True)
class Entry:
    """A code of ``docs/errors.md``: the error's class and module, its meaning, an example message, and what to do.

    ``todo`` is empty where the message says all of it.
    """

    code: str
    name: str
    module: str
    meaning: str
    message: str
    todo: str

    @property
    def summary(self) -> str:
        """The first sentence of the meaning, after the names of the class and its module."""
        return self.meaning.partition(". ")[2].partition(". ")[0].rstrip(".")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.code} {self.name}"
        yield ""
        yield self.meaning
        if self.message:
            yield ""
            yield "An example:"
            yield from (f"    {line}".rstrip() for line in self.message.splitlines())
        yield ""
        yield f"What to do: {self.todo or 'what the message ends with.'}"


def page() -> str:
    """The text of the page: beside this file if precast-loader is installed, in ``docs`` in a checkout."""
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
    lower = {name.lower(): name for name in by_name}
    name = lower.get(word.strip().lower())
    if name is not None:
        return by_name[name]
    near = get_close_matches(word.strip().lower()[:40], lower, n=1, cutoff=0.6)
    hint = f"did you mean {lower[near[0]]!r}? N" if near else "n"
    raise ConfigError(f"there is no error {word[:40]!r}; {hint}ame none to list all codes")


def _entries(text: str) -> Iterator[Entry]:
    for match in _ENTRY.finditer(text):
        before, _, rest = match["text"].partition("```text\n")
        message, _, after = rest.partition("\n```\n")
        names = _NAME.search(before)
        module, name = names.groups() if names else ("", "")
        yield Entry(match["code"], name, module, _plain(before), message, _plain(after))


def _plain(markdown: str) -> str:
    """A paragraph without Markdown's marks."""
    words = " ".join(markdown.split())
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("**", "").replace("`", "")
