"""Requests of a program: each with the artifact that served it, or why none did, and the manifest entry that builds it.

Each is a line of JSON in a file that many processes may add to. A line that occurs again adds to the count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.config import canonical, to_value
from precast.loader.contract.format.patterns import NAME, OP_NAME, PART, SHA256, Pattern
from precast.loader.contract.format.target import Target, parse_capability
from precast.loader.contract.format.tuning.measured import parse_problem
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import ConfigError, FormatError

LINE_LIMIT, FILE_LIMIT = 1 << 16, 256 << 20
_MOST_COUNTED = 2**53
FUNCTION = Pattern(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(?:@[a-z][a-z0-9_]*)?")
_REASON = 500


class ManifestEntry(Immutable, kw_only=True):
    """An entry of a manifest, of one variant: ``function`` is ``module:name``, or None for a registered op."""

    op: str
    function: str | None = None
    config: Mapping[str, Any]
    tuned: Mapping[str, Any]
    parts: tuple[str, ...] = ()
    env: Mapping[str, str]
    target: str | None = None

    def to_json(self) -> dict[str, Any]:
        data = {"op": self.op, "config": dict(self.config), "tuned": dict(self.tuned)}
        optional = {"function": self.function, "parts": [*self.parts], "env": dict(self.env), "target": self.target}
        return {**data, **{name: value for name, value in optional.items() if value}}

    @classmethod
    def parse(cls, value: object) -> ManifestEntry:
        names = ("op", "function", "config", "tuned", "parts", "env", "target")
        data = fields.known(fields.as_object(value), names)
        return cls(
            op=fields.matching(data, "op", OP_NAME, "a name of an op"),
            function=fields.matching(data, "function", FUNCTION, "a function as module:name", None),
            config=fields.parsed(data, "config", _values),
            tuned=fields.parsed(data, "tuned", _values),
            parts=fields.items(data, "parts", _part, most=256, default=()),
            env=fields.parsed(data, "env", _variables, {}),
            target=fields.parsed(data, "target", _target, None),
        )


class RequestRecord(Immutable, kw_only=True):
    """One request, and how often it was made.

    ``target`` is what the caller gave, ``capability`` that of the device. ``found`` is the artifact's key and ``cache``
    the name of its cache; ``missing`` is the reason why there is none.
    """

    op: str
    config: Mapping[str, Any]
    target: str | None = None
    capability: str | None = None
    problem: Mapping[str, int] | None = None
    found: str | None = None  # words: allow
    cache: str | None = None
    missing: str | None = None
    wanted: ManifestEntry | None = None  # words: allow
    count: int = 1

    @property
    def identity(self) -> bytes:
        """All of it but the count: equal for two lines about the same request."""
        return canonical({name: value for name, value in self.to_json().items() if name != "count"})

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"op": self.op, "config": dict(self.config), "count": self.count}
        names = ("target", "capability", "found", "cache")
        optional = {name: getattr(self, name) for name in names}
        optional["problem"] = dict(self.problem) if self.problem else None
        optional["missing"] = self.missing[:_REASON] if self.missing else None
        optional["wanted"] = self.wanted.to_json() if self.wanted else None
        return {**data, **{name: value for name, value in optional.items() if value is not None}}

    @property
    def line(self) -> bytes:
        """Its line of the file."""
        return canonical(self.to_json()) + b"\n"

    @classmethod
    def parse(cls, value: object) -> RequestRecord:
        """A request out of JSON, each part checked.

        >>> RequestRecord.parse({"op": "scale", "config": {}, "count": 2, "missing": "no cache holds op 'scale'"}).count
        2
        """
        names = ("op", "config", "target", "capability", "problem", "found", "cache", "missing", "wanted", "count")
        data = fields.known(fields.as_object(value), names)
        record = cls(
            op=fields.matching(data, "op", OP_NAME, "a name of an op"),
            config=fields.parsed(data, "config", _values),
            target=fields.parsed(data, "target", _target, None),
            capability=fields.parsed(data, "capability", lambda v: str(parse_capability(fields.text(v))), None),
            problem=fields.parsed(data, "problem", parse_problem, None),
            found=fields.matching(data, "found", SHA256, "an artifact's key", None),
            cache=fields.parsed(data, "cache", _plain_text, None),
            missing=fields.parsed(data, "missing", _plain_text, None),
            wanted=fields.parsed(data, "wanted", ManifestEntry.parse, None),
            count=fields.count(data, "count", most=_MOST_COUNTED),
        )
        if (record.found is None) == (record.missing is None):
            raise FormatError("expected either 'found' or 'missing'")
        return record


def _values(value: object) -> dict[str, Any]:
    """Values by name, each of which a config can hold."""
    data = fields.as_object(value)
    if len(data) > 256:
        raise FormatError(f"a config has at most 256 values, not {len(data)}")
    for name, item in data.items():
        if not NAME.admits(name):
            raise FormatError("not a config key", name[:80])
        try:
            to_value(item)
        except ConfigError as error:
            raise FormatError(str(error), name) from None
    return dict(data)


def _target(value: object) -> str:
    return str(Target.parse(fields.text(value)))


def _part(value: object) -> str:
    if not PART.admits(fields.text(value)):
        raise FormatError("not the name of a part")
    return fields.text(value)


def _plain_text(value: object) -> str:
    text = fields.text(value)
    if len(text) > LINE_LIMIT or not text.isprintable():
        raise FormatError("not plain text")
    return text


def _variables(value: object) -> dict[str, str]:
    data = fields.as_object(value)
    for name in data:
        if not NAME.admits(name) or not isinstance(data[name], str):
            raise FormatError("expected the name of a variable, and its text", name[:80])
    return dict(data)


class RequestLines(Immutable, kw_only=True):
    """The requests of a file, each once with its counts added up; ``cut`` if the last line is incomplete."""

    requests: tuple[RequestRecord, ...]
    cut: bool = False


def read_requests(data: bytes) -> RequestLines:
    """Read a file of requests. An incomplete last line is skipped; any other malformed line is an error.

    >>> read_requests(b'{"op": "sca')
    RequestLines(requests=(), cut=True)
    """
    records, lines, cut = [], data.split(b"\n"), False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(RequestRecord.parse(fields.read_json(line, limit=LINE_LIMIT)))
        except FormatError as error:
            if number == len(lines):  # every complete line ends with a line feed
                cut = True
                break
            raise FormatError(f"line {number} of the requests: {error}: remove it") from None
    return RequestLines(requests=combined(records), cut=cut)


def combined(requests: Iterable[RequestRecord]) -> tuple[RequestRecord, ...]:
    """Each request once, sorted, with the sum of its counts.

    >>> one = RequestRecord(op="scale", config={}, missing="no cache")
    >>> [each.count for each in combined([one, one])]
    [2]
    """
    table: dict[bytes, RequestRecord] = {}
    for record in requests:
        before = table.get(record.identity)
        table[record.identity] = record if before is None else replace(record, count=before.count + record.count)
    return tuple(table[identity] for identity in sorted(table))
