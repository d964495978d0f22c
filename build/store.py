"""The store: records of built variants by their keys, shared by every build of a user, valid after any interruption."""

from __future__ import annotations

import os
from pathlib import Path

import zstandard

from precast.build.notes import Notes
from precast.build.record import Record
from precast.build.scratch import WRITING, sweep
from precast.build.scratch import write_whole as write_whole
from precast.loader.errors import FormatError

_LEVEL = 3
_RECORD_LIMIT = 1 << 31


def default_store() -> Path:
    """Where records are kept unless a build says otherwise: ``PRECAST_STORE``, or precast's folder in the user's cache."""
    named = os.environ.get("PRECAST_STORE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "precast" / "store"


class Store:
    """A folder of records. One that cannot be read whole counts as absent, and is built again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes = Notes(path / "notes")

    def sweep(self) -> None:
        """Remove what killed builds have left half-written."""
        if self.path.is_dir():
            for folder in self.path.iterdir():
                sweep(folder, WRITING)

    def get(self, key: str) -> Record | None:
        """The record of a key, or None."""
        try:
            data = self._file(key).read_bytes()
            raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=_RECORD_LIMIT)
            return Record.decode(raw, key=key)
        except FileNotFoundError:
            return None
        except (OSError, zstandard.ZstdError, FormatError):
            return None

    def put(self, record: Record) -> None:
        """Keep a record. It is there whole or not at all, whoever else writes the same one."""
        data = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress(record.encode())
        write_whole(self._file(record.key), data)

    def _file(self, key: str) -> Path:
        return self.path / key[:2] / f"{key}.record"
