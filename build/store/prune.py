"""Pruning: the files of a store, and the removal of those that no build has used for long.

It is safe during builds: a build reads a record at once and keeps it, treats a removed one as absent, and compiles that
variant again. Temporary files of running builds are not removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from precast.build.store.store import Store

_RECORD = ".record"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a store: a record, or a small file beside the records. ``used`` is the time of its last use."""

    path: Path
    size: int
    used: float


@dataclass(frozen=True, slots=True)
class StoreUsage:
    """The number of records and the bytes of all files."""

    records: int
    size: int

    @classmethod
    def of(cls, files: Iterable[StoredFile]) -> StoreUsage:
        """Count some files.

        >>> StoreUsage.of([StoredFile(path=Path("ab/abc.record"), size=10, used=0.0)])
        StoreUsage(records=1, size=10)
        """
        listed = list(files)
        return cls(sum(f.path.suffix == _RECORD for f in listed), sum(f.size for f in listed))


def stored_files(store: Store) -> list[StoredFile]:
    """The files of a store, without temporary ones."""
    files = []
    for path in [*store.path.glob("??/*"), *store.notes.path.glob("*/*")]:
        if path.name.startswith("."):
            continue
        try:
            facts = path.stat()
        except OSError:  # another build or another pruning removed it
            continue
        files.append(StoredFile(path=path, size=facts.st_size, used=facts.st_mtime))
    return files


def select_unused(
    files: Iterable[StoredFile], now: float, *, older_than: float | None = None, keep: int | None = None
) -> list[StoredFile]:
    """The files to remove: those unused for ``older_than`` seconds, then the longest unused ones above ``keep`` bytes.

    >>> files = [StoredFile(path=Path(f"ab/{n}.record"), size=10, used=n) for n in range(4)]
    >>> [f.path.stem for f in select_unused(files, 100, older_than=99)]
    ['0']
    >>> [f.path.stem for f in select_unused(files, 100, keep=25)]
    ['0', '1']
    """
    selected = []
    ordered = sorted(files, key=lambda f: (f.used, f.path))
    remaining = sum(f.size for f in ordered)
    for file in ordered:
        too_old = older_than is not None and now - file.used > older_than
        if not too_old and (keep is None or remaining <= keep):
            break
        selected.append(file)
        remaining -= file.size
    return selected


def prune(store: Store, *, older_than: float | None = None, keep: int | None = None) -> StoreUsage:
    """Remove the files that ``select_unused`` selects and those of killed builds; returns the usage of the former."""
    store.sweep()
    removed = []
    for file in select_unused(stored_files(store), time.time(), older_than=older_than, keep=keep):
        try:
            if file.path.stat().st_mtime > file.used:
                continue  # a build has used it since
            file.path.unlink()
        except OSError:
            continue
        removed.append(file)
    return StoreUsage.of(removed)
