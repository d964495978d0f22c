"""Recordings: the keys that a program requested, one JSON text a line, in a file that many processes may share.

What the program compiled without a key has lines too, for the report. ``precast record`` makes a manifest of one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from precast.attach.recordings.untracked_compiles import UNCOVERED, UntrackedCompile
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import to_value
from precast.loader.contract.format.patterns import LIBRARY_NAME, NAME
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError, FormatError

LINE_LIMIT = 1 << 20
_FIELDS = ("library", "compile", "config", "call")


class Recorded(Immutable, kw_only=True):
    """One key: the library, its function by ``module:name``, and the values that the key is made of.

    ``call`` holds the arguments of a call of that function, where the function computes its key itself.
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
        """The key that a line of a recording holds, each part checked.

        >>> Recorded.parse({"library": "quack", "compile": "quack.softmax:compile", "config": {"N": 8}}).config
        {'N': 8}
        """
        data = fields.known(fields.as_object(value), _FIELDS)
        return cls(
            library=fields.parsed(data, "library", _library),
            compile=fields.parsed(data, "compile", _place),
            config=fields.parsed(data, "config", _values),
            call=fields.parsed(data, "call", lambda v: None if v is None else _values(v), None),
        )

    @property
    def text(self) -> str:
        """Its one JSON text."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

    @property
    def key(self) -> str:
        """All of it but the call: equal for two recordings of the same kernel."""
        return json.dumps([self.library, self.compile, dict(self.config)], sort_keys=True, separators=(",", ":"))


def _library(value: object) -> str:
    if not isinstance(value, str) or not LIBRARY_NAME.admits(value):
        raise FormatError(f"{str(value)[:80]!r} is not the name of a library")
    return value


def _place(value: object) -> str:
    """``module:name``, which may be imported: only identifiers and dots."""
    module, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise FormatError(f"{str(value)[:80]!r} is not a function written as module:name")
    return f"{module}:{name}"


def _values(value: object) -> Mapping[str, Any]:
    """Values by name, each of which a config can hold."""
    data = fields.as_object(value)
    for name, item in data.items():
        if not NAME.admits(name):
            raise FormatError("not a name of an argument", name[:80])
        try:
            to_value(item)
        except ConfigError as error:
            raise FormatError(str(error), name) from None
    return data


def read_recording(data: bytes) -> tuple[Recorded, ...]:
    """The keys of a recording, each once, sorted. An incomplete last line is skipped; other malformed lines are errors.

    >>> read_recording(b'{"library": "quack", "comp')
    ()
    """
    return merged(entry for entry in _lines(data) if isinstance(entry, Recorded))


def read_untracked(data: bytes) -> tuple[UntrackedCompile, ...]:
    """The compilations of a recording that no seam tracks, each once, sorted.

    >>> read_untracked(b"")
    ()
    """
    untracked = {entry.text: entry for entry in _lines(data) if isinstance(entry, UntrackedCompile)}
    return tuple(untracked[text] for text in sorted(untracked))


def _lines(data: bytes) -> Iterator[Recorded | UntrackedCompile]:
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = fields.read_json(line, limit=LINE_LIMIT)
            untracked = value.get(UNCOVERED) if isinstance(value, dict) else None
            entry = Recorded.parse(value) if untracked is None else UntrackedCompile.parse(untracked)
        except FormatError as error:
            if number == len(lines):
                break
            raise FormatError(f"line {number} of the recording: {error}: remove it") from None
        yield entry


def merged(recorded: Iterable[Recorded]) -> tuple[Recorded, ...]:
    """Keys of several recordings, each once, sorted. If several calls make one key, the first by its text is kept.

    >>> one = Recorded(library="quack", compile="quack.softmax:compile", config={"N": 8})
    >>> merged([one, one]) == (one,)
    True
    """
    table: dict[str, Recorded] = {}
    for entry in sorted(recorded, key=lambda entry: entry.text):
        table.setdefault(entry.key, entry)
    return tuple(table.values())
