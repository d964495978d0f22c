"""The store: records of built variants by their keys, shared by all builds of a user, valid after any interruption.

It grows with every variant that is built, until it is pruned (``precast store --prune``): see ``prune.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import zstandard

from precast.build.disk.last_use import mark_used
from precast.build.disk.memo import Memo
from precast.build.disk.scratch import WRITING, sweep, write_atomically
from precast.build.gpu.profile import Profile
from precast.build.store.key import record_key
from precast.build.store.record import Record
from precast.loader.errors import FormatError
from precast.loader.format import fields
from precast.loader.format.config import canonical

_LEVEL = 3
_RECORD_LIMIT = 1 << 30
_ASKED_LIMIT = 1 << 20


def default_store() -> Path:
    """Where records are kept unless a build says otherwise: ``PRECAST_STORE``, or a folder in the user's cache."""
    named = os.environ.get("PRECAST_STORE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "precast" / "store"


class Store:
    """A folder of records. One that cannot be read completely counts as absent, and is built again.

    A variant that asked facts of its GPU has a file with the names of these facts, and a record for every set of
    answers that it was built with: it is built again when one of those answers changes, and for no other fact. The
    time at which a file was last modified is that of its last use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes = Memo(path / "notes")

    def sweep(self) -> None:
        """Remove the temporary files of builds that were killed."""
        if self.path.is_dir():
            for folder in [*self.path.glob("??"), *self.notes.path.glob("*")]:
                sweep(folder, WRITING)

    def prepare(self, wanted: Iterable[tuple[str, Profile]]) -> None:
        """Fetch what will be asked for; a folder on this machine has nothing to fetch."""

    def share(self, wanted: Iterable[tuple[str, Profile]]) -> None:
        """Send what is here of these variants to others; a folder on this machine has no others."""

    def finish(self) -> None:
        """Wait until all that was put has arrived; in a folder it has at once."""

    def mark_used(self, wanted: Iterable[tuple[str, Profile]]) -> None:
        """Record the use of these variants by a build that does not read them, because its cache is up to date."""
        for key, profile in wanted:
            mark_used(self._file(record_key(key, profile.answers(self._asked(key))), "record"))

    def get(self, key: str, profile: Profile) -> Record | None:
        """The record of a variant's key, built with the answers that this profile gives, or None."""
        return self.read(record_key(key, profile.answers(self._asked(key))))

    def put(self, key: str, record: Record) -> None:
        """Keep the record of a variant's key. Other builds see all of it or nothing, and may write the same one."""
        data = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress(record.encode())
        self._keep(record.key, "record", data)
        if set(record.assumed) != set(self._asked(key)):
            self._keep(key, "asked", canonical(sorted(record.assumed)))

    def _asked(self, key: str) -> tuple[str, ...]:
        """The facts that the variant asked for when it was last built; none where that is not known."""
        data = self._load(key, "asked")
        try:
            return () if data is None else read_names(data)
        except FormatError:
            return ()

    def read(self, key: str) -> Record | None:
        """The record with exactly this key, or None."""
        data = self._load(key, "record")
        try:
            return None if data is None else _record(data, key)
        except FormatError:
            return None

    def _check(self, key: str, kind: str, data: bytes) -> None:
        """Raise FormatError unless these bytes are a file as this store writes them."""
        _record(data, key) if kind == "record" else read_names(data)

    def _load(self, key: str, kind: str) -> bytes | None:
        path = self._file(key, kind)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        mark_used(path)
        return data

    def _keep(self, key: str, kind: str, data: bytes) -> None:
        write_atomically(self._file(key, kind), data)

    def _file(self, key: str, kind: str) -> Path:
        return self.path / key[:2] / f"{key}.{kind}"


def _record(data: bytes, key: str) -> Record:
    try:
        # A frame states its decoded size, and zstd enforces it: nothing grows past the limit.
        if not 0 < zstandard.get_frame_parameters(data).content_size <= _RECORD_LIMIT:
            raise FormatError("it decodes to too much")
        return Record.decode(zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False), key=key)
    except zstandard.ZstdError as error:
        raise FormatError(f"it is not compressed as it should be: {error}") from None


def read_names(data: bytes) -> tuple[str, ...]:
    """The names of facts that a file of what was asked holds; raises FormatError."""
    names = fields.read_json(data, limit=_ASKED_LIMIT)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError("it is not a list of names")
    return tuple(names)
