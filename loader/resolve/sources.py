"""Sources: an op in every cache that has it."""

from __future__ import annotations

from precast.loader.errors import CacheError, ConfigError
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.resolve.candidate import CachedOp
from precast.loader.resolve.discover import Caches


def sources_of(op: str, caches: Caches) -> tuple[list[CachedOp], tuple[str, ...]]:
    """The op in every cache that has it, and a note for each cache that cannot be read."""
    if not isinstance(op, str):
        raise ConfigError(f"{op!r} is not the name of an op: loader.ops() lists them")
    sources, errors = [], [discovered.error for discovered in caches if discovered.error]
    damage: CacheError | None = None
    for precedence, discovered in enumerate(caches):
        cache = discovered.cache
        if cache is not None and op in cache.index.ops:
            try:
                sources.append(
                    CachedOp(
                        cache=discovered.label,
                        precedence=precedence,
                        ordered=discovered.ordered,
                        index=cache.index,
                        op=cache.op(op),
                    )
                )
            except CacheError as error:
                damage = error
                errors.append(error)
    if not sources:
        with IMPORT_LOCK:
            from precast.loader.resolve.not_found import unknown_op
        raise damage or unknown_op(op, caches)
    return sources, tuple(f"a cache was left out: {error}" for error in errors)
