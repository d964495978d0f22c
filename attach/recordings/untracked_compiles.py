"""Compilations that no declared seam tracks: observed while a program is recorded, and reported with their call sites.

No cache serves them. The arguments of ``cute.compile`` hold too little for a key. Most often they are a live object
whose state decides the kernel and which no other process can make again; the DSL's own key of a tensor without memory
holds addresses of the symbols in it; and nothing identifies the sources that the object was made from. A seam one level
up, at a function with plain arguments, has none of these problems: the report names the function to declare it at.
"""

from __future__ import annotations

import json

from precast.loader.contract.format import fields
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

UNCOVERED = "uncovered"
"""The name in a line of a recording."""

_FIELDS = ("place", "compiled", "arguments", "reason")
LONGEST = 400


class UntrackedCompile(Immutable, kw_only=True):
    """One compilation: the function that started it, what it compiles, its arguments, and why no seam tracks it.

    Where a seam tracks it, but it has no key, ``place`` is the seam's, and only ``reason`` is set besides.
    """

    place: str  # words: allow
    compiled: str = ""
    arguments: str = ""
    reason: str

    def to_json(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in _FIELDS}

    @property
    def text(self) -> str:
        """Its one JSON text."""
        return json.dumps({UNCOVERED: self.to_json()}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def key(self) -> str:
        """Equal for two records of the same compilation."""
        return self.text

    @classmethod
    def parse(cls, value: object) -> UntrackedCompile:
        """The compilation that a line of a recording holds, each part checked.

        >>> UntrackedCompile.parse({"place": "m:f", "compiled": "m:g", "arguments": "()", "reason": "none"}).place
        'm:f'
        """
        data = fields.known(fields.as_object(value), _FIELDS)
        return cls(**{name: fields.parsed(data, name, _text) for name in _FIELDS})

    def __str__(self) -> str:
        return f"no seam tracks {self.compiled}{self.arguments}: {self.reason}" if self.compiled else self.reason


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise FormatError(f"{value!r:.80} is not a string of at most {LONGEST} characters")
    return value


def without_key(function: str, reason: str) -> UntrackedCompile:
    """A compilation that a seam tracks, but that no key can hold."""
    return UntrackedCompile(place=function[:LONGEST], reason=reason[:LONGEST])
