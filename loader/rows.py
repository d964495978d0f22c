"""Rows: the artifacts of an op's file as text, each parsed when it is looked at.

An op may have thousands of artifacts, and a process needs a few. What all of them are looked through for, their configs
and keys, is taken out of the text at once. That needs the layout that ``encode`` writes, in which each depth has its
indent, and no line end is part of a string; a file that is laid out otherwise is parsed whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from precast.loader import fields
from precast.loader.errors import CacheError, FormatError

_BEGIN, _END = '\n "artifacts": [\n', "\n ],\n"
_FIRST, _BETWEEN, _LAST = "  {\n", "\n  },\n", "\n  }"
_CONFIG, _CONFIG_END = '\n   "config": ', "\n   }"
_KEY = '\n   "key": "'


class Rows(Sequence[Mapping[str, Any]]):
    """The rows of a file. ``configs`` and ``keys`` are theirs, in their order.

    >>> rows = Rows(['  {\\n   "config": {\\n    "n": 1\\n   },\\n   "key": "' + "0" * 64 + '"\\n  }'])
    >>> rows.configs, rows[0]["config"]
    ([{'n': 1}], {'n': 1})
    """

    def __init__(self, texts: list[str], place: str = "") -> None:
        self._texts, self._place = texts, place
        self._read: dict[int, Mapping[str, Any]] = {}
        self.configs: list[Mapping[str, Any]] = _configs(texts)
        self.keys: list[str] = [_key(text) for text in texts]

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, position: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, position: int | slice) -> Any:
        if isinstance(position, slice):
            return [self[n] for n in range(*position.indices(len(self)))]
        found = self._read.get(position)
        if found is None:
            found = self._read[position] = self._parse(position)
        return found

    def _parse(self, position: int) -> Mapping[str, Any]:
        """A row. What is wrong with its text is wrong with the file: nothing of that is to be trusted."""
        try:
            found = fields.as_object(fields.parse_json(self._texts[position]))
            if found.get("config") != self.configs[position] or found.get("key") != self.keys[position]:
                raise FormatError("is not laid out as the other rows are")
        except FormatError as error:
            where = error.within(position).within("artifacts")
            raise CacheError(f"{self._place}: {where}. Rebuild or reinstall the cache") from None
        return found


def split(text: str, place: str = "") -> tuple[str, Rows] | None:
    """A file without its rows, and these; None where it is laid out in another way than ``encode`` does."""
    head, begun, rest = text.partition(_BEGIN)
    body, ended, tail = rest.partition(_END)
    if not begun or not ended or not body.startswith(_FIRST) or not body.endswith(_LAST):
        return None
    texts = [f"{one}{_LAST}" for one in body.removesuffix(_LAST).split(_BETWEEN)]
    try:
        return f'{head}\n "artifacts": [],\n{tail}', Rows(texts, place)
    except (FormatError, ValueError):
        return None


def _configs(texts: list[str]) -> list[Mapping[str, Any]]:
    """All configs, parsed as one list: a thousand small documents take longer."""
    found = fields.parse_json("[" + ",".join(map(_config, texts)) + "]")
    if len(found) != len(texts):
        raise FormatError("is not laid out as the other rows are")
    return [fields.as_object(one) for one in found]


def _config(text: str) -> str:
    begin = text.index(_CONFIG) + len(_CONFIG)
    if text.startswith("{}", begin):
        return "{}"
    return text[begin : text.index(_CONFIG_END, begin) + len(_CONFIG_END)]


def _key(text: str) -> str:
    begin = text.index(_KEY) + len(_KEY)
    return text[begin : text.index('"', begin)]
