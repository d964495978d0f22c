"""The keeper: puts the records of a build into the store, once the packages that they were made with were looked at.

A variant's own files are looked at when it has compiled. The files of installed packages are tens of thousands, so they
are looked at for all variants of some seconds at once, and no record is kept before: a store would have the bytes of a
package that somebody was editing, under its usual state, permanently and for everybody who shares it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from precast.build.plan.variant import Variant
from precast.build.store.lookup import Lookup
from precast.build.store.record import Record

_SECONDS = 2.0
_SHARE = 10  # a look that takes long is made less often
_WRITERS = 4


class Kept(NamedTuple):
    """A record that was put into the store under its variant's key; or not, since a package has changed."""

    key: str
    variant: Variant
    record: Record
    changed: str = ""


class Keeper:
    """The records of one build that are not in the store yet."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._waiting: list[Kept] = []
        self._due = time.monotonic() + _SECONDS

    @property
    def is_due(self) -> bool:
        """Whether records have waited for some seconds."""
        return time.monotonic() > self._due

    def add(self, key: str, variant: Variant, record: Record) -> None:
        """Take a record, which ``keep`` returns."""
        self._waiting.append(Kept(key, variant, record))

    def keep(self) -> list[Kept]:
        """Look at the packages, and put every record into the store for which none has changed."""
        begun = time.monotonic()
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        edited = self._lookup.answers.edited(name for kept in waiting for name in kept.record.installed.names)
        done = [kept._replace(changed=min(edited & {*kept.record.installed.names}, default="")) for kept in waiting]
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(self._put, done))
        self._due = time.monotonic() + max(_SECONDS, _SHARE * (time.monotonic() - begun))
        return done

    def _put(self, kept: Kept) -> None:
        if not kept.changed:
            self._lookup.store.put(kept.key, kept.record)
