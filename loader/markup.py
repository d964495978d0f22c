"""Markup: the HTML that a notebook shows for a value. Anything that is not ``Markup`` is text, and is escaped.

Configs, paths and names come from caches, and may hold anything. So nothing here is put into an attribute, and there is
no script, no address and no picture in what is made.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

ROWS = 100
"""Rows that a table shows; a page of a cache with thousands is made by ``precast report``."""

_LONGEST = 2000  # characters of one text
_WORD = 24  # characters after which a word may break, so that a table is no wider than it must be
# Colours are the notebook's, light or dark; lines are a grey that both show. Notebooks align cells to the right, by
# rules that come before all but important ones.
_STYLE = (
    ".precast-values{overflow-x:auto;max-width:100%;color:inherit}"
    ".precast-values table{border-collapse:collapse;margin:.4em 0;color:inherit;background:none}"
    ".precast-values caption{caption-side:top;text-align:left;color:inherit;font-weight:bold;padding:2px 0}"
    ".precast-values th,.precast-values td{text-align:left!important;vertical-align:top;padding:2px 10px 2px 0;"
    "color:inherit;white-space:normal;border:0;border-bottom:1px solid rgba(128,128,128,.4)}"
    ".precast-values pre{font-family:monospace!important;white-space:pre-wrap;color:inherit;background:none;"
    "margin:.4em 0}"
)


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(value: object) -> Markup:
    """Any text as HTML that displays exactly that text.

    Invisible characters, and those that change the order of others, are written as Python escapes. A dollar sign and
    a backslash stand alone: notebooks take what is between two of them for a formula.

    >>> escaped("<b>\\u202etxt")
    '&lt;b&gt;<span>\\\\</span>u202etxt'
    """
    text = str(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({len(text)} characters)"
    seen = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    marked = re.sub(rf"\S{{{_WORD}}}(?=\S)", lambda word: f"{word[0]}\0", seen)
    return Markup(re.sub(r"([$\\])", r"<span>\1</span>", html.escape(marked)).replace("\0", "<wbr>"))


def element(tag: str, *children: object) -> Markup:
    """An element without attributes.

    >>> element("td", "a < b")
    '<td>a &lt; b</td>'
    """
    return Markup(f"<{tag}>{''.join(map(_of, children))}</{tag}>")


def table(title: object, head: Sequence[object], rows: Iterable[Sequence[object]], total: int | None = None) -> Markup:
    """A table with a title; of more than ``ROWS`` rows the first, and a line that counts the others.

    Parameters
    ----------
    title
        The title of the table.
    head
        A cell for each column; none, and the first cell of each row is its head.
    rows
        The cells of each row; only ``ROWS`` of them are read.
    total
        How many rows there are, if the caller knows.
    """
    shown = []
    more = 0
    for position, row in enumerate(rows):
        if position == ROWS:
            more = 1
            break
        shown.append(row)
    first = "td" if head else "th"
    lines = [element("tr", element(first, row[0]), *(element("td", cell) for cell in row[1:])) for row in shown]
    titles = element("thead", element("tr", *(element("th", cell) for cell in head))) if head else ""
    drawn = element("table", element("caption", title), Markup(titles), element("tbody", *lines))
    if not more:
        return drawn
    hidden = f"and {total - ROWS} more" if total is not None else "and more"
    return Markup(drawn + element("p", hidden))


def page(*parts: object) -> str:
    """The HTML for a notebook: the parts one below the other, with their style."""
    return f'<div class="precast-values"><style>{_STYLE}</style>{"".join(map(_of, parts))}</div>'


def _of(child: object) -> str:
    return child if isinstance(child, Markup) else escaped(child)
