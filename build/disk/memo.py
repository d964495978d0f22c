"""The memo: results that need not be computed again, each under the digest of everything that it depends on.

An entry only saves time: a missing, damaged or invalid one is computed again.

It saves parsing the imports of every module that a kernel reaches, reading the declarations of kernels in a process
that imports the DSL (2 to 5 s), and writing an unchanged cache. It can be removed when planning a thousand variants
and digesting their sources takes less than a second without it.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.build.disk.last_use import mark_used
from precast.build.disk.scratch import write_atomically
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import canonical
from precast.loader.errors import FormatError, PrecastError
from precast.loader.regular_file import read_regular

_LIMIT = 64 << 20
_DIGEST = 64


@dataclass(frozen=True, slots=True)
class Memo:
    """A folder of entries: JSON, each after the digest of its bytes."""

    path: Path

    def get(self, kind: str, key: str) -> Any:
        """The entry, or None."""
        try:
            path = self._file(kind, key)
            data = read_regular(path, _LIMIT + _DIGEST + 1)
            mark_used(path)
            body = data[_DIGEST + 1 :]
            if hashlib.sha256(body).hexdigest().encode() != data[:_DIGEST]:
                return None
            return fields.read_json(body, limit=_LIMIT)
        except (OSError, FormatError):
            return None

    def has(self, kind: str) -> bool:
        """Whether any entry of this kind was ever kept."""
        return (self.path / kind).is_dir()

    def put(self, kind: str, key: str, value: Any) -> None:
        """Keep an entry, if there is disk space for it."""
        body = canonical(value)
        with contextlib.suppress(PrecastError):
            data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
            write_atomically(self._file(kind, key), data, sync=False)

    def _file(self, kind: str, key: str) -> Path:
        return self.path / kind / f"{key}.json"


def memo_key(*values: Any) -> str:
    """The key of an entry: the digest of what it depends on.

    >>> memo_key("a", 1) == memo_key("a", 1), memo_key("a", 1) == memo_key("a", 2)
    (True, False)
    """
    return hashlib.sha256(canonical(list(values))).hexdigest()
