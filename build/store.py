"""The store: records of built variants by their keys, shared by every build of a user, valid after any interruption."""

from __future__ import annotations

import os
from pathlib import Path

import zstandard

from precast.build.key import record_key
from precast.build.notes import Notes
from precast.build.profile import Profile
from precast.build.record import Record
from precast.build.scratch import WRITING, sweep
from precast.build.scratch import write_whole as write_whole
from precast.loader import fields
from precast.loader.config import canonical
from precast.loader.errors import FormatError

_LEVEL = 3
_RECORD_LIMIT = 1 << 31
_ASKED_LIMIT = 1 << 20


def default_store() -> Path:
    """Where records are kept unless a build says otherwise: ``PRECAST_STORE``, or a folder in the user's cache."""
    named = os.environ.get("PRECAST_STORE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "precast" / "store"


class Store:
    """A folder of records. One that cannot be read whole counts as absent, and is built again.

    A variant that asked about its GPU has a file with the names of what it asked, and a record for every set of
    answers that it was built with: it is built again when one of those answers changes, and for no other fact.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes = Notes(path / "notes")

    def sweep(self) -> None:
        """Remove what killed builds have left half-written."""
        if self.path.is_dir():
            for folder in [*self.path.glob("??"), *self.notes.path.glob("*")]:
                sweep(folder, WRITING)

    def get(self, key: str, profile: Profile) -> Record | None:
        """The record of a variant's key, built with the answers that this profile gives, or None."""
        return self._read(record_key(key, profile.answers(self._asked(key))))

    def put(self, key: str, record: Record) -> None:
        """Keep the record of a variant's key. It is there whole or not at all, whoever else writes the same one."""
        data = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress(record.encode())
        write_whole(self._file(record.key, "record"), data)
        if set(record.assumed) != set(self._asked(key)):
            write_whole(self._file(key, "asked"), canonical(sorted(record.assumed)))

    def _asked(self, key: str) -> tuple[str, ...]:
        """What the variant asked when it was last built; nothing, where that is not known."""
        try:
            names = fields.read_json(self._file(key, "asked").read_bytes(), limit=_ASKED_LIMIT)
        except (OSError, FormatError):
            return ()
        return tuple(map(str, names)) if isinstance(names, list) else ()

    def _read(self, key: str) -> Record | None:
        try:
            data = self._file(key, "record").read_bytes()
            raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=_RECORD_LIMIT)
            return Record.decode(raw, key=key)
        except FileNotFoundError:
            return None
        except (OSError, zstandard.ZstdError, FormatError):
            return None

    def _file(self, key: str, kind: str) -> Path:
        return self.path / key[:2] / f"{key}.{kind}"
