"""``--where KEY=VALUE``: the variants of a cache whose configs have these values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key, suggest, value_text
from precast.loader.contract.format.fields import parse_json
from precast.loader.errors import ConfigError, FormatError
from precast.loader.resolve.cache import Cache

Variant = tuple[str, Artifact]


def chosen(cache: Cache, variants: Iterable[Variant], words: Sequence[str]) -> list[Variant]:
    """The variants that have every one of the values, each written as ``key=value``; all without any.

    Raises:
        ConfigError: no op of these has such a key, or no variant such a value.
    """
    found = list(variants)
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals and text):
            raise ConfigError(f"--where {word[:80]!r} is not a choice: write it like dtype=bfloat16")
        keys = {op: {key.name: key for key in cache.op(op).keys} for op in sorted({op for op, _ in found})}
        if found and not any(name in own for own in keys.values()):
            known = sorted({key for own in keys.values() for key in own})
            raise ConfigError(f"--where {word[:80]}: no config key is named {name!r}{suggest(name, known)}")
        left = [(op, a) for op, a in found if name in keys[op] and _is(keys[op][name], a.config.get(name), text)]
        if found and not left:
            values = sorted({value_text(a.config[name]) for _, a in found if name in a.config})
            raise ConfigError(f"no variant has {name}={text}: use one of {', '.join(values[:20])}")
        found = left
    return found


def _is(key: Key, value: object, text: str) -> bool:
    """Whether a value of a config is what somebody wrote: a dtype by any of its names, others as JSON or as text.

    >>> _is(Key(name="dtype", type="dtype"), "bfloat16", "bf16")
    True
    >>> _is(Key(name="tile", type="list[int]"), (64, 8), "[64,8]")
    True
    """
    readings: list[Any] = [text]
    with suppress(FormatError):
        readings.append(parse_json(text))
    for reading in readings:
        with suppress(ConfigError):
            if key.normal(reading) == value and type(key.normal(reading)) is type(value):
                return True
    return False
