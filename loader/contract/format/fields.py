"""Typed getters for JSON that may be invalid. An error has the path of the value: each level adds its key."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.patterns import Pattern
from precast.loader.errors import FormatError, PrecastError

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

Object = Mapping[str, Any]

MISSING = object()
MOST_VALUES = 2_000_000
"""The values that are parsed at once: lists, objects, and what is in them."""


def read_json(data: bytes, *, limit: int) -> Any:
    """Parse JSON in UTF-8 of at most ``limit`` bytes, without repeated keys or NaN.

    >>> read_json(b'{"a": 1}', limit=100)
    {'a': 1}
    """
    return parse_json(read_text(data, limit=limit))


def read_text(data: bytes, *, limit: int) -> str:
    """Decode UTF-8 of at most ``limit`` bytes."""
    if len(data) > limit:
        raise FormatError(f"{len(data)} bytes of JSON, more than the {limit} this reader takes")
    try:
        return data.decode("utf-8")
    except ValueError as error:
        raise FormatError(f"not JSON: {error}") from None


def parse_json(text: str, *, most: int = MOST_VALUES) -> Any:
    """Parse a JSON text. Raises a FormatError for a repeated key, for NaN, and for more values than ``most``.

    >>> parse_json("[1, 2]", most=1)
    Traceback (most recent call last):
    precast.loader.errors.FormatError: more than the 1 values that this reader takes at...
    """
    if values_in(text, most) > most:  # first: an empty list of two bytes takes a hundred in memory
        raise FormatError(f"more than the {most} values that this reader takes at once")
    try:
        return _DECODER.decode(text)
    except FormatError:
        raise
    except RecursionError:
        raise FormatError("JSON nests too deep") from None
    except ValueError as error:
        raise FormatError(f"not JSON: {error}") from None


def values_in(text: str, most: int) -> int:
    """At least as many values as a text has, from the characters that begin or separate them."""
    return 0 if len(text) <= most else text.count("[") + text.count("{") + text.count(",")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise FormatError("the key occurs twice", repeated)
    return result


def _refuse(text: str) -> Any:
    raise FormatError(f"{text} is not a number that a file may hold")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)  # json.loads would make one each time


def as_object(value: object) -> Object:
    """The value, which must be a JSON object."""
    if not isinstance(value, dict):
        raise FormatError(f"expected an object, got {_kind(value)}")
    return value


def get(data: Object, name: str, kind: type[T], default: Any = MISSING) -> T:
    """The value under ``name``, which must be exactly of this type: a bool is not an int.

    >>> get({"size": 3}, "size", int)
    3
    """
    value = data.get(name, default)
    if value is MISSING:
        raise FormatError("missing", name)
    if name not in data:
        return value  # type: ignore[no-any-return]
    if type(value) is not kind:
        raise FormatError(f"expected {kind.__name__}, got {_kind(value)}", name)
    return value


def count(data: Object, name: str, *, most: int, default: Any = MISSING) -> int:
    """A whole number between 0 and ``most``."""
    value = get(data, name, int, default)
    if not 0 <= value <= most:
        raise FormatError(f"{value} is not between 0 and {most}", name)
    return value


def matching(data: Object, name: str, words: Pattern, what: str, default: Any = MISSING) -> str:
    """A string that a pattern matches."""
    value = get(data, name, str, default)
    if name in data and not words.admits(value):
        raise FormatError(f"{value[:80]!r} is not {what}", name)
    return value


def one_of(data: Object, name: str, allowed: tuple[str, ...], default: Any = MISSING) -> str:
    """One of a fixed list of strings."""
    value = get(data, name, str, default)
    if value not in allowed:
        raise FormatError(f"{value[:80]!r} is not one of {', '.join(allowed)}", name)
    return value


def parsed(data: Object, name: str, parse: Callable[[Any], T], default: Any = MISSING) -> T:
    """The value under ``name``, parsed. An error gets this key."""
    if name not in data:
        if default is MISSING:
            raise FormatError("missing", name)
        return default  # type: ignore[no-any-return]
    try:
        return parse(data[name])
    except FormatError as error:
        raise error.within(name) from None
    except PrecastError as error:
        raise FormatError(str(error), name) from None


def items(data: Object, name: str, parse: Callable[[Any], T], *, most: int, default: Any = MISSING) -> tuple[T, ...]:
    """The list under ``name``, each item parsed."""

    def each(value: Any) -> Iterator[T]:
        if not isinstance(value, list):
            raise FormatError(f"expected a list, got {_kind(value)}")
        if len(value) > most:
            raise FormatError(f"{len(value)} items, more than the {most} this reader takes")
        for position, item in enumerate(value):
            try:
                yield parse(item)
            except FormatError as error:
                raise error.within(position) from None
            except PrecastError as error:
                raise FormatError(str(error), f"[{position}]") from None

    return parsed(data, name, lambda value: tuple(each(value)), default)


def table(data: Object, name: str, parse: Callable[[Any], T], *, most: int, default: Any = MISSING) -> dict[str, T]:
    """The object under ``name``, each value parsed."""

    def each(value: Any) -> dict[str, T]:
        entries = as_object(value)
        if len(entries) > most:
            raise FormatError(f"{len(entries)} entries, more than the {most} this reader takes")
        return {key: parsed(entries, key, parse) for key in entries}

    return parsed(data, name, each, default)


def text(value: object) -> str:
    """The value, which must be a string."""
    if not isinstance(value, str):
        raise FormatError(f"expected str, got {_kind(value)}")
    return value


def known(data: Object, names: tuple[str, ...]) -> Object:  # words: allow
    """The object, which may have no keys but these."""
    for name in data:
        if name not in names:
            raise FormatError("unknown key", name[:80])
    return data


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
