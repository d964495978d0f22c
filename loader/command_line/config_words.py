"""Configs as people write them on a command line: ``KEY=VALUE`` words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key, suggest, value_text
from precast.loader.contract.format.fields import parse_json
from precast.loader.errors import ConfigError, FormatError

_SHOWN = 20


def split_word(word: str) -> tuple[str, str]:
    """A word's key and value.

    >>> split_word("dtype=bf16")
    ('dtype', 'bf16')
    """
    name, equals, text = word.partition("=")
    if not (name and equals and text):
        raise ConfigError(f"{word[:80]!r} is not KEY=VALUE: write it like dtype=bfloat16")
    return name, text


def request_of(words: Iterable[str], keys: Iterable[Key]) -> dict[str, object]:
    """The config that words stand for. A key that the op lacks stays: resolving refuses it, with the nearest one.

    >>> request_of(["dtype=bf16", "tile=[64,8]"], [Key(name="dtype", type="dtype"), Key(name="tile", type="list[int]")])
    {'dtype': 'bfloat16', 'tile': (64, 8)}
    """
    table = {key.name: key for key in keys}
    config: dict[str, object] = {}
    for word in words:
        name, text = split_word(word)
        if name in config:
            raise ConfigError(f"{name} is given twice: give it once")
        config[name] = _value(table[name], text) if name in table else text
    return config


def sizes_of(words: Iterable[str]) -> dict[str, int]:
    """The sizes of a problem that words stand for.

    >>> sizes_of(["m=4096", "n=8"])
    {'m': 4096, 'n': 8}
    """
    sizes = dict(map(split_word, words))
    if wrong := [name for name, text in sizes.items() if not (text.isascii() and text.isdecimal() and len(text) < 19)]:
        raise ConfigError(f"{wrong[0][:40]}={sizes[wrong[0]][:40]} is not a size: write it like m=4096")
    return {name: int(text) for name, text in sizes.items()}


def equals(key: Key, value: object, text: str) -> bool:
    """Whether a config's value is the one that a text stands for: a dtype by any of its names, others as JSON or text.

    >>> equals(Key(name="dtype", type="dtype"), "bfloat16", "bf16")
    True
    >>> equals(Key(name="tile", type="list[int]"), (64, 8), "[64,8]")
    True
    """
    for reading in _readings(text):
        with suppress(ConfigError):
            if key.normal(reading) == value and type(key.normal(reading)) is type(value):
                return True
    return False


def having(
    variants: Sequence[tuple[str, Artifact]], keys: Mapping[str, Sequence[Key]], words: Iterable[str]
) -> list[tuple[str, Artifact]]:
    """The variants whose configs have every value of these words.

    Parameters
    ----------
    variants
        Artifacts, each with its op.
    keys
        The keys of each op.
    words
        ``KEY=VALUE`` each.

    Raises
    ------
    ConfigError
        No op of these has such a key, or no variant such a value.
    """
    selected = list(variants)
    tables = {op: {key.name: key for key in op_keys} for op, op_keys in keys.items()}
    for word in words:
        name, text = split_word(word)
        if selected and not any(name in tables[op] for op, _ in selected):
            names = sorted({key for op, _ in selected for key in tables[op]})
            raise ConfigError(f"{word[:80]}: no config key is named {name!r}{suggest(name, names)}")
        left = [
            (op, a) for op, a in selected if name in tables[op] and equals(tables[op][name], a.config.get(name), text)
        ]
        if selected and not left:
            values = sorted({value_text(a.config[name]) for _, a in selected if name in a.config})
            more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
            raise ConfigError(f"no variant has {name}={text}: use one of {', '.join(values[:_SHOWN])}{more}")
        selected = left
    return selected


def _value(key: Key, text: str) -> object:
    """The value that a text stands for, in the key's type; the text itself if it is none, which resolving refuses."""
    for reading in reversed(_readings(text)) if key.type == "any" else _readings(text):
        with suppress(ConfigError):
            return key.normal(reading)
    return text


def _readings(text: str) -> list[Any]:
    readings: list[Any] = [text]
    with suppress(FormatError):
        readings.append(parse_json(text))
    return readings
