"""Parts of a page in Markdown: tables, docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

NOTE = "\n`make reference` writes this page from the code.\n"
"""The last line of each page of docs/reference."""
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell does not end it.

    >>> print(table(("a", "b"), [("1", "x|y")]))
    | a | b |
    | --- | --- |
    | 1 | x\\|y |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def fenced(language: str, text: str) -> str:
    """A block of code.

    >>> print(fenced("sh", "precast doctor"))
    ```sh
    precast doctor
    ```
    """
    return f"```{language}\n{text.strip()}\n```"


def docstring(text: str) -> str:
    """A docstring as Markdown: its sections with headings, its parameters as a list, its sessions as blocks of code.

    >>> print(docstring("Say ``x``.\\n\\nParameters\\n----------\\nx\\n    What to say,\\n    and how.\\n\\n"))
    Say `x`.
    <BLANKLINE>
    ## Parameters
    <BLANKLINE>
    - `x`: What to say, and how.
    """
    first, *rest = _SECTION.split(inspect.cleandoc(text))
    parts = [_prose(first)]
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        if name == "Examples":
            parts.append(_prose(body))
        else:
            parts += [f"## {name}", _terms(body)]
    return "\n\n".join(part for part in parts if part)


def _terms(body: str) -> str:
    """A list of names, each with the indented lines below it."""
    terms: list[list[str]] = []
    for line in body.splitlines():
        if line and not line.startswith(" "):
            terms.append([line])
        elif line.strip():
            terms[-1].append(line.strip())
    return "\n".join(f"- `{name}`: {_inline(' '.join(lines))}" for name, *lines in terms)


def _prose(text: str) -> str:
    """Paragraphs as they are; those that are a session of Python as a block of it."""
    paragraphs = re.split(r"\n{2,}", text.strip())
    return "\n\n".join(fenced("pycon", p) if p.startswith(">>>") else _paragraph(p) for p in paragraphs)


def _paragraph(text: str) -> str:
    if text.startswith("    "):
        return fenced("python", inspect.cleandoc(text))
    return _inline(text)


def _inline(text: str) -> str:
    return text.replace("``", "`")
