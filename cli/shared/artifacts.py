"""Which artifacts of a cache a command is about: by key, by op, by values of their configs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key, suggest, value_text
from precast.loader.contract.format.fields import parse_json
from precast.loader.errors import ConfigError, FormatError, PrecastError
from precast.loader.resolve.cache import Cache

SHORTEST_KEY = 4
"""Characters of a key that are needed to name an artifact."""

Variant = tuple[str, Artifact]
"""An op and one of its artifacts."""


class NoSuchArtifact(PrecastError, LookupError):
    """The text given is neither an op nor a key of the cache, or several keys start with it."""

    code = "PCC01"


def artifacts_named(cache: Cache, name: str) -> list[Variant]:
    """The artifacts that a name stands for: all of an op, or the one whose key starts with it."""
    if name in cache.index.ops:
        return [(name, artifact) for artifact in cache.op(name).artifacts]
    every = [(op, artifact) for op in sorted(cache.index.ops) for artifact in cache.op(op).artifacts]
    matches = [(op, a) for op, a in every if len(name) >= SHORTEST_KEY and a.key.startswith(name)]
    if len(matches) > 1:
        keys = ", ".join(artifact.key[:16] for _, artifact in matches)
        raise NoSuchArtifact(f"{len(matches)} keys start with {name!r}: {keys}; give more characters")
    if not matches:
        hint = suggest(name, cache.index.ops, f"run 'precast list' for the keys; {SHORTEST_KEY} characters are enough")
        raise NoSuchArtifact(f"cache {cache.name!r} has no op and no key {name!r}{hint}")
    return matches


def artifacts_where(cache: Cache, variants: Iterable[Variant], conditions: Sequence[str]) -> list[Variant]:
    """The variants whose configs have every value of ``--where KEY=VALUE``; all of them without any.

    Raises:
        ConfigError: no op of these has such a key, or no variant such a value.
    """
    selected = list(variants)
    for condition in conditions:
        name, equals, text = condition.partition("=")
        if not (name and equals and text):
            raise ConfigError(f"--where {condition[:80]!r} is not KEY=VALUE: write it like dtype=bfloat16")
        keys = {op: {key.name: key for key in cache.op(op).keys} for op in sorted({op for op, _ in selected})}
        if selected and not any(name in own for own in keys.values()):
            names = sorted({key for own in keys.values() for key in own})
            raise ConfigError(f"--where {condition[:80]}: no config key is named {name!r}{suggest(name, names)}")
        matching = [
            (op, a) for op, a in selected if name in keys[op] and _equals(keys[op][name], a.config.get(name), text)
        ]
        if selected and not matching:
            values = sorted({value_text(a.config[name]) for _, a in selected if name in a.config})
            raise ConfigError(f"no variant has {name}={text}: use one of {', '.join(values[:20])}")
        selected = matching
    return selected


def _equals(key: Key, value: object, text: str) -> bool:
    """Whether a config's value is the one that a text stands for: a dtype by any of its names, others as JSON or text.

    >>> _equals(Key(name="dtype", type="dtype"), "bfloat16", "bf16")
    True
    >>> _equals(Key(name="tile", type="list[int]"), (64, 8), "[64,8]")
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
