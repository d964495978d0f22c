"""Rows: the artifacts of an op's file as JSON, each parsed at its first use.

An op may have thousands of artifacts, and a process needs a few. At first only the place of each row is found; a field
of a config is then searched for in the text, and the configs and keys of all rows are parsed when all are needed. That
needs the layout that ``encode`` writes, in which each depth has its indent and no string holds a line end; a file in
another layout is parsed whole.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.index import MOST_ARTIFACTS
from precast.loader.errors import CacheError, FormatError

_BEGIN, _END, _NEXT = b'\n "artifacts": [\n', b"\n ],\n", b' "doc": '
_FIRST, _BETWEEN, _LAST = b"  {\n", b"\n  },\n", b"\n  }"
_CONFIG, _CONFIG_END = b'\n   "config": ', b"\n   }"
_KEY = b'\n   "key": "'
_KEY_SIZE = 64
_FIELD_OF_CONFIG = "\n    "
_TUNING, _TUNING_END = b'\n "tuning": [\n', b'\n ],\n "version": '
_BETWEEN_ROWS = re.compile(_BETWEEN)  # quicker than to find one after the other

_ROW_VALUES = 100_000
_FEW_ROWS = 64  # whose configs are parsed one by one in less time than those of all

Span = tuple[int, int]  # where a row begins and ends in the file


class Rows:
    """The rows of a file. ``configs`` and ``keys`` are the configs and keys of all rows, in their order.

    >>> row = b'  {\\n   "config": {\\n    "n": 1\\n   },\\n   "key": "' + b"0" * 64 + b'"\\n  }'
    >>> rows = Rows(row, [(0, len(row))])
    >>> rows.having("n", 1), rows.configs, rows[0]["config"]
    ([0], [{'n': 1}], {'n': 1})
    """

    def __init__(self, data: bytes, spans: list[Span], path: str = "") -> None:
        self._data, self._spans, self._path = data, spans, path
        self._parsed: dict[int, Mapping[str, Any]] = {}
        self._configs: Sequence[Any] | None = None
        self.keys: Sequence[Any] = _keys(data, spans)

    @classmethod
    def of(cls, objects: Sequence[Mapping[str, Any]]) -> Rows:
        """Rows that are parsed already.

        >>> len(Rows.of([{"config": {"n": 1}}]))
        1
        """
        rows = cls(b"", [])
        rows._hold(objects)
        return rows

    @property
    def configs(self) -> Sequence[Any]:
        """The configs of all rows."""
        if self._configs is None:
            try:
                self._configs = _configs(self._data, self._spans)
            except (FormatError, ValueError):
                self._parse_all()
        return self._configs or ()

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, position: int) -> Mapping[str, Any]:
        row = self._parsed.get(position)
        if row is None:
            row = self._parsed[position] = self._parse(position)
        return row

    def having(self, name: str, value: object) -> list[int] | None:
        """The positions of a few rows, among them all whose config has this text or whole number under this name; None
        where they are many, or where all configs are parsed already."""
        if self._configs is not None:
            return None
        line = f"{_FIELD_OF_CONFIG}{json.dumps(name)}: {json.dumps(value)}".encode()
        positions: dict[int, None] = {}
        at, size = self._data.find(line), len(line)
        while at >= 0:
            if self._data.startswith((b",", b"\n"), at + size):  # else a longer number
                positions[bisect_right(self._spans, (at,)) - 1] = None
                if len(positions) > _FEW_ROWS:
                    return None
            at = self._data.find(line, at + size)
        return [position for position in positions if position >= 0]

    def config(self, position: int) -> Any:
        """The config of one row."""
        if self._configs is None:
            try:
                return _parsed(_config(self._data, self._spans[position]))
            except (FormatError, ValueError):
                pass
        return self.configs[position]

    def _parse(self, position: int) -> Mapping[str, Any]:
        """Parse a row. An error in its text means that the file is damaged, so the whole cache is refused."""
        begin, end = self._spans[position]
        try:
            row = fields.as_object(_parsed(self._data[begin:end], most=_ROW_VALUES))
            if row.get("config") != self.config(position) or row.get("key") != self.keys[position]:
                raise FormatError("not formatted as the other rows are")
        except FormatError as error:
            raise self._damaged(error.within(position).within("artifacts")) from None
        return row

    def _parse_all(self) -> None:
        """Parse the file whole: a row is in another layout than ``encode`` writes."""
        try:
            root = fields.as_object(_parsed(self._data))
            objects = fields.items(root, "artifacts", fields.as_object, most=MOST_ARTIFACTS)
            if len(objects) != len(self.keys):
                raise FormatError("not formatted as the other rows are", "artifacts")
        except FormatError as error:
            raise self._damaged(error) from None
        self._hold(objects)

    def _hold(self, objects: Sequence[Mapping[str, Any]]) -> None:
        self._parsed = dict(enumerate(objects))
        self.keys = [row.get("key") for row in objects]
        self._configs = [row.get("config") for row in objects]

    def _damaged(self, error: FormatError) -> CacheError:
        return CacheError(f"{self._path}: {error}. Rebuild or reinstall the cache")


def split(data: bytes, path: str = "") -> tuple[bytes, Rows] | None:
    """A file without its rows, and the rows; None if its layout is not that of ``encode``. Raises a FormatError for too
    many rows."""
    begun, ended = data.find(_BEGIN), data.rfind(_END + _NEXT)
    begin = begun + len(_BEGIN)
    if begun < 0 or ended < begin:
        return None
    if not data.startswith(_FIRST, begin) or not data.startswith(_LAST, ended - len(_LAST)):
        return None
    spans: list[Span] = []
    for between in _BETWEEN_ROWS.finditer(data, begin, ended):
        spans.append((begin, between.start() + len(_LAST)))
        if len(spans) >= MOST_ARTIFACTS:
            raise FormatError(f"more than the {MOST_ARTIFACTS} items that this reader takes", "artifacts")
        begin = between.end()
    spans.append((begin, ended))
    try:
        rows = Rows(data, spans, path)
    except (FormatError, ValueError):
        return None
    return b'%b\n "artifacts": [],\n%b' % (data[:begun], data[ended + len(_END) :]), rows


def split_tuning(head: bytes) -> tuple[bytes, bytes | None]:
    """A file without its measurements, and their text, which few lookups need; None if it has none, or another layout.

    >>> split_tuning(b'{\\n "op": "scale",\\n "tuning": [\\n  {}\\n ],\\n "version": 1\\n}')
    (b'{\\n "op": "scale",\\n "version": 1\\n}', b'[  {}]')
    """
    begin, end = head.find(_TUNING), head.rfind(_TUNING_END)
    if begin < 0 or end < begin:
        return head, None
    rest = len(b"\n ],")
    return head[:begin] + head[end + rest :], b"[%b]" % head[begin + len(_TUNING) : end]


def _configs(data: bytes, spans: list[Span]) -> list[Mapping[str, Any]]:
    """All configs, parsed as one list: a thousand small documents take longer."""
    text = _text(b"[%b]" % b",".join([_config(data, span) for span in spans]))
    configs = _quickly_parsed(text)
    if configs is None:
        configs = fields.parse_json(text)
    if len(configs) != len(spans):
        raise FormatError("not formatted as the other rows are")
    return [fields.as_object(config) for config in configs]


def _quickly_parsed(text: str) -> Any:
    """Configs without a check of each for repeated keys, where their lines are as many as their keys; else None.

    A row is parsed with that check before it is used, and its config compared with this one.
    """
    if fields.values_in(text, fields.MOST_VALUES) > fields.MOST_VALUES:
        raise FormatError("more values than this reader takes")
    try:
        configs = json.loads(text, parse_constant=_refuse)
        fields_of_all = sum(map(len, configs))
    except (ValueError, TypeError, RecursionError):
        return None
    return configs if text.count(_FIELD_OF_CONFIG + '"') == fields_of_all else None


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _parsed(part: bytes, most: int = fields.MOST_VALUES) -> Any:
    return fields.parse_json(_text(part), most=most)


def _text(part: bytes) -> str:
    return fields.read_text(part, limit=len(part))


def _config(data: bytes, span: Span) -> bytes:
    begin = data.index(_CONFIG, *span) + len(_CONFIG)
    if data.startswith(b"{}", begin):
        return b"{}"
    return data[begin : data.index(_CONFIG_END, begin, span[1]) + len(_CONFIG_END)]


def _keys(data: bytes, spans: list[Span]) -> list[str]:
    """The keys of all rows; those of 64 characters are cut out in half of the time."""
    index, size = data.index, len(_KEY)
    begins = [index(_KEY, *span) + size for span in spans]
    joined = b"".join([data[begin : begin + _KEY_SIZE + 1] for begin in begins])
    if joined.count(b'"') == len(begins) and joined[_KEY_SIZE :: _KEY_SIZE + 1] == b'"' * len(begins):
        return _text(joined).split('"')[:-1]
    return [_text(data[begin : index(b'"', begin, span[1])]) for begin, span in zip(begins, spans, strict=True)]
