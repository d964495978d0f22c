"""Which artifacts of a cache a command is about: by key, by op, by values of their configs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from precast.loader.command_line.config_words import having
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import suggest
from precast.loader.errors import ConfigError, PrecastError
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
    keys = {op: cache.op(op).keys for op in sorted({op for op, _ in selected})} if conditions else {}
    try:
        return having(selected, keys, conditions)
    except ConfigError as error:
        raise ConfigError(f"--where: {error}") from None
