"""What keys were made of: the parts of each record's key, kept where it was built, to name the part that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from precast.build.disk.memo import Memo
from precast.build.store.history import Change, differing, flat
from precast.build.store.record import Record
from precast.build.store.store import Store

_KIND = "parts"


def note_parts(memo: Memo, record: Record, parts: Mapping[str, Any]) -> None:
    """Remember what a record's key was made of."""
    memo.put(_KIND, record.key, made_of(parts, record))


def made_of(parts: Mapping[str, Any], record: Record) -> dict[str, str]:
    """The parts of a record's key by name: those that are known before it compiles, and what it read and requested."""
    read = {**record.installed.answers, **record.inputs.answers}
    return {
        **flat(parts),
        **{name: "" if answer is None else answer for name, answer in read.items()},
        **{f"gpu {name}": str(answer) for name, answer in record.assumed.items()},
    }


class KeyParts:
    """The parts of the keys of artifacts, as far as a store has them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, key: str, op: str, kind: str) -> dict[str, str] | None:
        """The parts of an artifact's key; None if this store has no such record."""
        record = self._store.record_key_of(key, op, kind)
        parts = None if record is None else self._store.notes.get(_KIND, record)
        return {str(name): str(value) for name, value in parts.items()} if isinstance(parts, dict) else None


def key_changes(then: Mapping[str, str] | None, now: Mapping[str, str] | None) -> Iterator[Change]:
    """The parts in which two keys differ; none where those of one are not known.

    >>> [str(change) for change in key_changes({"source": "aa", "host": "x"}, {"source": "bb", "host": "x"})]
    ['source: aa, now bb']
    """
    if then is not None and now is not None:
        yield from differing(then, now)
