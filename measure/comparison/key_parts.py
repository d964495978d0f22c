"""Key parts: what the keys of artifacts were made of, as far as a store has it, to name the part that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from precast.build.store.history import PARTS, Change, differing
from precast.build.store.store import Store


class KeyParts:
    """The parts of the keys of artifacts, as far as a store has them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, key: str, op: str, kind: str) -> dict[str, str] | None:
        """The parts of an artifact's key; None if this store has no such record."""
        record = self._store.record_key_of(key, op, kind)
        parts = None if record is None else self._store.notes.get(PARTS, record)
        return {str(name): str(value) for name, value in parts.items()} if isinstance(parts, dict) else None


def key_changes(then: Mapping[str, str] | None, now: Mapping[str, str] | None) -> Iterator[Change]:
    """The parts in which two keys differ; none where those of one are not known.

    >>> [str(change) for change in key_changes({"source": "aa", "host": "x"}, {"source": "bb", "host": "x"})]
    ['source: aa, now bb']
    """
    if then is not None and now is not None:
        yield from differing(then, now)
