"""Text for a terminal: what a cache, a server or a kernel has written, without characters that move its cursor."""

from __future__ import annotations


def visible(text: str, *, keep: str = "\n\t") -> str:
    """A text with escapes for the characters that are not printable, except those to ``keep``.

    >>> visible("a\\x1b[2Jb\\r\\u202e, next\\nline")
    'a\\\\x1b[2Jb\\\\r\\\\u202e, next\\nline'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def on_one_line(value: object) -> str:
    """A value as a part of a line: the ends of lines in it are escaped, too.

    >>> on_one_line("one\\ntwo")
    'one\\\\ntwo'
    """
    return visible(str(value), keep="")
