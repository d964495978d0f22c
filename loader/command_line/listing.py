"""Listings: the caches of this process, and the artifacts in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from precast.loader.command_line.config_words import having
from precast.loader.command_line.text import count, table
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key, config_text, suggest
from precast.loader.contract.values import Immutable
from precast.loader.errors import OpNotFound
from precast.loader.resolve.discover import DiscoveredCache

NO_CACHES = "no caches: install the wheel of one, or name its folder in PRECAST_CACHE_PATH"


class Listed(Immutable, kw_only=True):
    """An artifact, the op that it is of, and the cache that it is in."""

    cache: str
    op: str
    artifact: Artifact

    def to_json(self) -> dict[str, Any]:
        """The artifact's values for programs."""
        row = self.artifact.to_json()
        return {"cache": self.cache, "op": self.op, **{n: row[n] for n in ("key", "config", "target", "kind")}}


def listed(caches: Iterable[DiscoveredCache], op: str = "", where: Sequence[str] = ()) -> list[Listed]:
    """The artifacts of all caches that can be opened, or those of one op, or with these values in their configs.

    Parameters
    ----------
    caches
        The caches, in the order in which they are searched.
    op
        The op; empty for all.
    where
        ``KEY=VALUE`` each.
    """
    caches = tuple(caches)
    rows: list[Listed] = []
    keys: dict[str, tuple[Key, ...]] = {}
    for discovered in caches:
        for name in sorted(discovered.index.ops) if discovered.index else ():
            if discovered.cache is None or (op and op != name):
                continue
            reader = discovered.cache.op(name)
            keys[name] = (*keys.get(name, ()), *reader.keys)
            rows += [Listed(cache=discovered.label, op=name, artifact=artifact) for artifact in reader.artifacts]
    if op and not caches:
        raise OpNotFound(f"no cache holds op {op!r}, since there are {NO_CACHES}")
    if op and not rows:
        ops = {name for discovered in caches if discovered.index for name in discovered.index.ops}
        raise OpNotFound(f"no cache holds op {op!r}{suggest(op, ops, 'list without an op shows all')}")
    if not where:
        return rows
    kept = {id(artifact) for _, artifact in having([(row.op, row.artifact) for row in rows], keys, where)}
    return [row for row in rows if id(row.artifact) in kept]


def artifact_table(rows: Sequence[Listed]) -> str:
    """One aligned line for each artifact, then their number."""
    cells = [
        (r.artifact.key[:12], r.op, r.artifact.target, r.artifact.kind, r.cache, config_text(r.artifact.config))
        for r in rows
    ]
    total = f"{count(len(rows), 'artifact')} of {count(len({r.op for r in rows}), 'op')}"
    return "\n".join([*([table(("key", "op", "target", "kind", "cache", "config"), cells)] if cells else []), total])


def cache_to_json(discovered: DiscoveredCache) -> dict[str, Any]:
    """A cache's values for programs."""
    return {
        "name": discovered.name,
        "path": str(discovered.path or ""),
        "origin": discovered.origin,
        "error": str(discovered.error or ""),
        "ops": sorted(discovered.index.ops) if discovered.index else [],
        "digest": discovered.cache.digest if discovered.cache else "",
    }


def cache_table(caches: Sequence[DiscoveredCache]) -> str:
    """The caches in the order in which they are searched, a line each, then what is wrong with the broken ones."""
    if not caches:
        return NO_CACHES
    rows, errors = [], []
    for cache in caches:
        artifacts = sum(entry.artifacts for entry in cache.index.ops.values()) if cache.index else 0
        state = (len(cache.index.ops), artifacts) if cache.index else ("broken", "")
        rows.append((cache.name, *state, cache.origin, cache.path or ""))
        errors += [f"{cache.name}: {cache.error}"] if cache.error else []
    return "\n".join([table(("cache", "ops", "artifacts", "found by", "folder"), rows), *errors])
