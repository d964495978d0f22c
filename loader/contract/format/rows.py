"""Rows: the artifacts of an op's file as JSON, each parsed at its first use.

An op may have thousands of artifacts, and a process needs a few. Only the configs and keys of all of them are parsed at
once. That needs the layout that ``encode`` writes, in which each depth has its indent and no string holds a line end; a
file in another layout is parsed whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.index import MOST_ARTIFACTS
from precast.loader.errors import CacheError, FormatError

_BEGIN, _END, _NEXT = '\n "artifacts": [\n', "\n ],\n", ' "doc": '
_FIRST, _BETWEEN, _LAST = "  {\n", "\n  },\n", "\n  }"
_CONFIG, _CONFIG_END = '\n   "config": ', "\n   }"
_KEY = '\n   "key": "'
_KEY_SIZE = 64
_FIELD_OF_CONFIG = '\n    "'
_TUNING, _TUNING_END = '\n "tuning": [\n', '\n ],\n "version": '
_BETWEEN_ROWS = re.compile(_BETWEEN)  # quicker than to find one after the other

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
    for between in _BETWEEN_ROWS.finditer(text, begin, ended):
        spans.append((begin, between.start() + len(_LAST)))
        if len(spans) >= MOST_ARTIFACTS:
            raise FormatError(f"more than the {MOST_ARTIFACTS} items that this reader takes", "artifacts")
        begin = between.end()
    spans.append((begin, ended))
    try:
        return f'{text[:begun]}\n "artifacts": [],\n{text[ended + len(_END) :]}', Rows(text, spans, path)
    except (FormatError, ValueError):
        return None


def split_tuning(text: str) -> tuple[str, str | None]:
    """A file without its measurements, and their text, which few lookups need; None if it has none, or another layout.

    >>> split_tuning('{\\n "op": "scale",\\n "tuning": [\\n  {}\\n ],\\n "version": 1\\n}')
    ('{\\n "op": "scale",\\n "version": 1\\n}', '[  {}]')
    """
    begin, end = text.find(_TUNING), text.rfind(_TUNING_END)
    if begin < 0 or end < begin:
        return text, None
    rest = len("\n ],")
    return text[:begin] + text[end + rest :], f"[{text[begin + len(_TUNING) : end]}]"


def _configs(text: str, spans: list[Span]) -> list[Mapping[str, Any]]:
    """All configs, parsed as one list: a thousand small documents take longer."""
    listed = "[" + ",".join([_config(text, span) for span in spans]) + "]"
    configs = _quickly_parsed(listed)
    if configs is None:
        configs = fields.parse_json(listed)
    if len(configs) != len(spans):
        raise FormatError("not formatted as the other rows are")
    return [fields.as_object(config) for config in configs]


def _quickly_parsed(listed: str) -> Any:
    """Configs without a check of each for repeated keys, where their lines are as many as their keys; else None.

    A row is parsed with that check before it is used, and its config compared with this one.
    """
    if fields.values_in(listed, fields.MOST_VALUES) > fields.MOST_VALUES:
        return None  # the other parse says so
    try:
        configs = json.loads(listed, parse_constant=_refuse)
        fields_of_all = sum(map(len, configs))
    except (ValueError, TypeError, RecursionError):
        return None
    return configs if listed.count(_FIELD_OF_CONFIG) == fields_of_all else None


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _config(text: str, span: Span) -> str:
    begin = text.index(_CONFIG, *span) + len(_CONFIG)
    if text.startswith("{}", begin):
        return "{}"
    return text[begin : text.index(_CONFIG_END, begin, span[1]) + len(_CONFIG_END)]


def _key(text: str, span: Span) -> str:
    begin = text.index(_KEY, *span) + len(_KEY)
    end = begin + _KEY_SIZE
    return text[begin : end if text.startswith('"', end) else text.index('"', begin, span[1])]
