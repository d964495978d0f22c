"""Recordings: the keys that a program asked for, one JSON text a line, in a file that many processes may add to.

What the program compiled without a key has lines too, for a report.

``precast record`` makes a manifest of one. A line is written at once and whole, so that what a killed program has
asked for is not lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.config import to_value
from precast.loader.contract.format.patterns import NAME, Pattern
from precast.loader.contract.recordings.untracked_compiles import UNCOVERED, UntrackedCompile
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError, FormatError

LINE_LIMIT = 1 << 20
LIBRARY_NAME = Pattern(r"[a-z][a-z0-9_]{0,31}")
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
        """What two recordings of the same kernel have in common: all but the call."""
        return json.dumps([self.library, self.compile, dict(self.config)], sort_keys=True, separators=(",", ":"))


def _library(value: object) -> str:
    if not isinstance(value, str) or not LIBRARY_NAME.admits(value):
        raise FormatError(f"{str(value)[:80]!r} is not the name of a library")
    return value


def _place(value: object) -> str:
    """``module:name``, which may be imported: nothing but identifiers and dots."""
    module, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise FormatError(f"{str(value)[:80]!r} is not a function as module:name")
    return f"{module}:{name}"


def _values(value: object) -> Mapping[str, Any]:
    """Values by name, each of which a config can hold."""
    data = fields.as_object(value)
    for name, one in data.items():
        if not NAME.admits(name):
            raise FormatError("not a name of an argument", name[:80])
        try:
            to_value(one)
        except ConfigError as error:
            raise FormatError(str(error), name) from None
    return data


def read_recording(data: bytes) -> tuple[Recorded, ...]:
    """The keys of a recording, each once, sorted. A last line that was cut is left out; other bad ones are errors.

    >>> read_recording(b'{"library": "quack", "comp')
    ()
    """
    return merged(one for one in _lines(data) if isinstance(one, Recorded))


def read_untracked(data: bytes) -> tuple[UntrackedCompile, ...]:
    """The compilations of a recording that no seam asked for, each once, sorted.

    >>> read_untracked(b"")
    ()
    """
    found = {one.text: one for one in _lines(data) if isinstance(one, UntrackedCompile)}
    return tuple(found[text] for text in sorted(found))


def _lines(data: bytes) -> Iterator[Recorded | UntrackedCompile]:
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = fields.read_json(line, limit=LINE_LIMIT)
            found = value.get(UNCOVERED) if isinstance(value, dict) else None
            one = Recorded.parse(value) if found is None else UntrackedCompile.parse(found)
        except FormatError as error:
            if number == len(lines):
                break
            raise FormatError(f"line {number} of the recording: {error}: remove it") from None
        yield one


def merged(recorded: Iterable[Recorded]) -> tuple[Recorded, ...]:
    """Keys of several recordings, each once, sorted. Of several calls that make one key, the first by its text is kept.

    >>> one = Recorded(library="quack", compile="quack.softmax:compile", config={"N": 8})
    >>> merged([one, one]) == (one,)
    True
    """
    table: dict[str, Recorded] = {}
    for one in sorted(recorded, key=lambda one: one.text):
        table.setdefault(one.key, one)
    return tuple(table.values())
