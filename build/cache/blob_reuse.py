"""Earlier: compressed bytes are taken from the cache that is being replaced, where they would come out the same.

Notes say which bytes a content has come to under which dictionary; the old cache on disk only supplies them, and is
believed in nothing: what does not have the digest that was noted is compressed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.build.disk.memo import Memo, memo_key
from precast.loader.format.index import digest


@dataclass(frozen=True, slots=True)
class BlobReuse:
    """A cache that an earlier build wrote, and the notes about how it was made."""

    cache: Path
    notes: Memo

    def dictionary(self, method: str, contents: Iterable[str]) -> bytes | None:
        """The dictionary that was trained on contents of exactly these digests."""
        return self._blob(self.notes.get("dictionaries", memo_key(method, sorted(contents))))

    def keep_dictionary(self, method: str, contents: Iterable[str], dictionary: bytes) -> None:
        """Note which dictionary these contents have given."""
        self.notes.put("dictionaries", memo_key(method, sorted(contents)), [digest(dictionary)] * 2)

    def compressed(self, method: str, dictionary: bytes | None, contents: Iterable[str]) -> dict[str, bytes]:
        """Compressed contents by their digests, as far as they are there."""
        noted = self.notes.get("compressed", _key(method, dictionary))
        known: Mapping[str, Any] = noted if isinstance(noted, dict) else {}
        found = ((name, self._blob([name, known.get(name)])) for name in contents if name in known)
        return {name: data for name, data in found if data is not None}

    def keep_compressed(self, method: str, dictionary: bytes | None, stored: Mapping[str, bytes]) -> None:
        """Note what contents have come to."""
        self.notes.put("compressed", _key(method, dictionary), {name: digest(data) for name, data in stored.items()})

    def _blob(self, named: Any) -> bytes | None:
        """The bytes of a blob of the old cache, if they have the digest that was noted."""
        if not (isinstance(named, list) and len(named) == 2 and all(isinstance(n, str) for n in named)):
            return None
        name, expected = named
        try:
            data = (self.cache / "blobs" / Path(name).name).read_bytes()
        except OSError:
            return None
        return data if digest(data) == expected else None


def _key(method: str, dictionary: bytes | None) -> str:
    return memo_key(method, digest(dictionary) if dictionary else "")
