"""Rows: the artifacts of an op's file as JSON, each parsed at its first use.

An op may have thousands of artifacts, and a process needs a few. Only the configs and keys of all of them are parsed at
once. That needs the layout that ``encode`` writes, in which each depth has its indent and no string holds a line end; a
file in another layout is parsed whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.index import MOST_ARTIFACTS
from precast.loader.errors import CacheError, FormatError

_BEGIN, _END, _NEXT = '\n "artifacts": [\n', "\n ],\n", ' "doc": '
_FIRST, _BETWEEN, _LAST = "  {\n", "\n  },\n", "\n  }"
_CONFIG, _CONFIG_END = '\n   "config": ', "\n   }"
_KEY = '\n   "key": "'

_ROW_VALUES = 100_000

Span = tuple[int, int]  # where a row begins and ends in the text


class Rows:
    """The rows of a file. ``configs`` and ``keys`` are the configs and keys of all rows, in their order.

    >>> row = '  {\\n   "config": {\\n    "n": 1\\n   },\\n   "key": "' + "0" * 64 + '"\\n  }'
    >>> rows = Rows(row, [(0, len(row))])
    >>> rows.configs, rows[0]["config"]
    ([{'n': 1}], {'n': 1})
    """

    def __init__(self, text: str, spans: list[Span], path: str = "") -> None:
        self._text, self._spans, self._path = text, spans, path
        self._parsed: dict[int, Mapping[str, Any]] = {}
        self.configs: Sequence[Any] = _configs(text, spans)
        self.keys: Sequence[Any] = [_key(text, span) for span in spans]

    @classmethod
    def of(cls, objects: Sequence[Mapping[str, Any]]) -> Rows:
        """Rows that are parsed already.

        >>> len(Rows.of([{"config": {"n": 1}}]))
        1
        """
        rows = cls("", [])
        rows._parsed = dict(enumerate(objects))
        rows.configs = [row.get("config") for row in objects]
        rows.keys = [row.get("key") for row in objects]
        return rows

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, position: int) -> Mapping[str, Any]:
        row = self._parsed.get(position)
        if row is None:
            row = self._parsed[position] = self._parse(position)
        return row

    def _parse(self, position: int) -> Mapping[str, Any]:
        """Parse a row. An error in its text means that the file is damaged, so the whole cache is refused."""
        try:
            begin, end = self._spans[position]
            row = fields.as_object(fields.parse_json(self._text[begin:end], most=_ROW_VALUES))
            if row.get("config") != self.configs[position] or row.get("key") != self.keys[position]:
                raise FormatError("not formatted as the other rows are")
        except FormatError as error:
            damage = error.within(position).within("artifacts")
            raise CacheError(f"{self._path}: {damage}. Rebuild or reinstall the cache") from None
        return row


def split(text: str, path: str = "") -> tuple[str, Rows] | None:
    """A file without its rows, and the rows; None if its layout is not that of ``encode``. Raises a FormatError for too
    many rows."""
    begun, ended = text.find(_BEGIN), text.rfind(_END + _NEXT)
    begin = begun + len(_BEGIN)
    if begun < 0 or ended < begin:
        return None
    if not text.startswith(_FIRST, begin) or not text.startswith(_LAST, ended - len(_LAST)):
        return None
    spans: list[Span] = []
    while (end := text.find(_BETWEEN, begin, ended)) >= 0:
        spans.append((begin, end + len(_LAST)))
        if len(spans) >= MOST_ARTIFACTS:
            raise FormatError(f"more than the {MOST_ARTIFACTS} items that this reader takes", "artifacts")
        begin = end + len(_BETWEEN)
    spans.append((begin, ended))
    try:
        return f'{text[:begun]}\n "artifacts": [],\n{text[ended + len(_END) :]}', Rows(text, spans, path)
    except (FormatError, ValueError):
        return None


def _configs(text: str, spans: list[Span]) -> list[Mapping[str, Any]]:
    """All configs, parsed as one list: a thousand small documents take longer."""
    configs = fields.parse_json("[" + ",".join([_config(text, span) for span in spans]) + "]")
    if len(configs) != len(spans):
        raise FormatError("not formatted as the other rows are")
    return [fields.as_object(config) for config in configs]


def _config(text: str, span: Span) -> str:
    begin = text.index(_CONFIG, *span) + len(_CONFIG)
    if text.startswith("{}", begin):
        return "{}"
    return text[begin : text.index(_CONFIG_END, begin, span[1]) + len(_CONFIG_END)]


def _key(text: str, span: Span) -> str:
    begin = text.index(_KEY, *span) + len(_KEY)
    return text[begin : text.index('"', begin, span[1])]
