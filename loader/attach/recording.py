"""Recordings: the keys that a program asked for, one JSON text a line, in a file that many processes may add to.

``precast record`` makes a manifest of one. A line is written at once and whole, so that what a killed program has
asked for is not lost.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from precast.loader.errors import FormatError
from precast.loader.fast_start.values import Immutable
from precast.loader.format import fields

LINE_LIMIT = 1 << 20
_FIELDS = ("library", "compile", "config", "call")


class Recorded(Immutable, kw_only=True):
    """One key: the library, its function by ``module:name``, and the values that the key is made of.

    ``call`` holds the arguments of a call of that function, where the function makes its key itself.
    """

    library: str
    compile: str
    config: Mapping[str, Any]
    call: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        data = {"library": self.library, "compile": self.compile, "config": dict(self.config)}
        return data if self.call is None else {**data, "call": dict(self.call)}

    @classmethod
    def parse(cls, value: object) -> Recorded:
        data = fields.known(fields.as_object(value), _FIELDS)
        return cls(
            library=fields.get(data, "library", str),
            compile=fields.get(data, "compile", str),
            config=fields.parsed(data, "config", fields.as_object),
            call=fields.parsed(data, "call", lambda v: None if v is None else fields.as_object(v), None),
        )

    @property
    def text(self) -> str:
        """Its one JSON text."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

    @property
    def key(self) -> str:
        """What two recordings of the same kernel have in common: all but the call."""
        return json.dumps([self.library, self.compile, dict(self.config)], sort_keys=True, separators=(",", ":"))


class Recorder:
    """Adds keys to a file, each once a process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: dict[str, Recorded] = {}
        self._lock = threading.Lock()

    def add(self, recorded: Recorded) -> bool:
        """Write a key down, unless this process has already; whether it was new."""
        with self._lock:
            if recorded.key in self._seen:
                return False
            self._seen[recorded.key] = recorded
            if self._path is not None:
                _append(self._path, recorded.text)
            return True

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        """What this process has written, in the order of its text."""
        return tuple(sorted(self._seen.values(), key=lambda one: one.text))


def _append(path: Path, text: str) -> None:
    with open(path, "ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text.encode() + b"\n")


def read_recording(data: bytes) -> tuple[Recorded, ...]:
    """The keys of a recording, each once, sorted. A last line that was cut is left out; other bad ones are errors."""
    lines = data.split(b"\n")
    found: dict[str, Recorded] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = Recorded.parse(fields.read_json(line, limit=LINE_LIMIT))
        except FormatError as error:
            if number == len(lines):
                break
            raise FormatError(f"line {number} of the recording: {error}: remove it") from None
        found.setdefault(one.key, one)
    return merged(found.values())


def merged(recorded: Iterable[Recorded]) -> tuple[Recorded, ...]:
    """Keys of several recordings, each once, sorted."""
    table: dict[str, Recorded] = {}
    for one in recorded:
        table.setdefault(one.key, one)
    return tuple(sorted(table.values(), key=lambda one: one.text))


def recording_path() -> Path | None:
    """The file that ``PRECAST_RECORDING`` names."""
    named = os.environ.get("PRECAST_RECORDING")
    return Path(named) if named else None
