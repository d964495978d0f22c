"""Rows: the artifacts of an op's file as text, each parsed when it is looked at.

An op may have thousands of artifacts, and a process needs a few. Only the configs and keys of all of them are taken
out of the text at once. That needs the layout that ``encode`` writes, in which each depth has its indent, and no string
holds a line end; a file in another layout is parsed whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from precast.loader.errors import CacheError, FormatError
from precast.loader.format import fields

_BEGIN, _END, _NEXT = '\n "artifacts": [\n', "\n ],\n", ' "doc": '
_FIRST, _BETWEEN, _LAST = "  {\n", "\n  },\n", "\n  }"
_CONFIG, _CONFIG_END = '\n   "config": ', "\n   }"
_KEY = '\n   "key": "'

Place = tuple[int, int]  # where a row begins in the text, and where it ends


class Rows:
    """The rows of a file. ``configs`` and ``keys`` are theirs, in their order.

    >>> row = '  {\\n   "config": {\\n    "n": 1\\n   },\\n   "key": "' + "0" * 64 + '"\\n  }'
    >>> rows = Rows(row, [(0, len(row))])
    >>> rows.configs, rows[0]["config"]
    ([{'n': 1}], {'n': 1})
    """

    def __init__(self, text: str, places: list[Place], file: str = "") -> None:
        self._text, self._places, self._file = text, places, file
        self._read: dict[int, Mapping[str, Any]] = {}
        self.configs: list[Mapping[str, Any]] = _configs(text, places)
        self.keys: list[str] = [_key(text, place) for place in places]

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, position: int) -> Mapping[str, Any]:
        found = self._read.get(position)
        if found is None:
            found = self._read[position] = self._parse(position)
        return found

    def _parse(self, position: int) -> Mapping[str, Any]:
        """Parse a row. An error in its text means that the file is damaged, so the whole cache is refused."""
        try:
            begin, end = self._places[position]
            found = fields.as_object(fields.parse_json(self._text[begin:end]))
            if found.get("config") != self.configs[position] or found.get("key") != self.keys[position]:
                raise FormatError("is not formatted as the other rows are")
        except FormatError as error:
            where = error.within(position).within("artifacts")
            raise CacheError(f"{self._file}: {where}. Rebuild or reinstall the cache") from None
        return found


def split(text: str, file: str = "") -> tuple[str, Rows] | None:
    """A file without its rows, and these; None where it is laid out in another way than ``encode`` does."""
    begun, ended = text.find(_BEGIN), text.rfind(_END + _NEXT)
    begin = begun + len(_BEGIN)
    if begun < 0 or ended < begin:
        return None
    if not text.startswith(_FIRST, begin) or not text.startswith(_LAST, ended - len(_LAST)):
        return None
    places: list[Place] = []
    while (end := text.find(_BETWEEN, begin, ended)) >= 0:
        places.append((begin, end + len(_LAST)))
        begin = end + len(_BETWEEN)
    places.append((begin, ended))
    try:
        return f'{text[:begun]}\n "artifacts": [],\n{text[ended + len(_END) :]}', Rows(text, places, file)
    except (FormatError, ValueError):
        return None


def _configs(text: str, places: list[Place]) -> list[Mapping[str, Any]]:
    """All configs, parsed as one list: a thousand small documents take longer."""
    found = fields.parse_json("[" + ",".join([_config(text, place) for place in places]) + "]")
    if len(found) != len(places):
        raise FormatError("is not formatted as the other rows are")
    return [fields.as_object(one) for one in found]


def _config(text: str, place: Place) -> str:
    begin = text.index(_CONFIG, *place) + len(_CONFIG)
    if text.startswith("{}", begin):
        return "{}"
    return text[begin : text.index(_CONFIG_END, begin, place[1]) + len(_CONFIG_END)]


def _key(text: str, place: Place) -> str:
    begin = text.index(_KEY, *place) + len(_KEY)
    return text[begin : text.index('"', begin, place[1])]
