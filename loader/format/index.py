"""The index: ``index.json`` at the root of a cache, and one ``ops/<op>.json`` for each op.

The root is small and names each op's file by its digest, so that a reader takes in only the ops it is asked for, and
so that the digest of the root pins everything below it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from precast.loader.errors import FormatError
from precast.loader.fast_start.values import Immutable
from precast.loader.format import fields
from precast.loader.format.artifact import Artifact, Blob, Host
from precast.loader.format.config import Key, config_order, to_json, to_value
from precast.loader.format.patterns import CACHE_NAME, KEY_TYPE, NAME, OP_NAME, SHA256, SONAME
from precast.loader.format.rows import Rows, split
from precast.loader.import_lock import IMPORT_LOCK

if TYPE_CHECKING:
    from precast.loader.format.tuning import Measured

FORMAT = "precast-cache"
OP_FORMAT = "precast-op"
VERSION = 4
"""The newest version. A file says the least version that has all its fields: 2 where an artifact has ``assumes``, 3
where there are tables of measurements, 4 where an artifact has a ``program``."""

_FIRST, _WITH_ASSUMPTIONS, _WITH_TABLES, _WITH_PROGRAMS = 1, 2, 3, 4
INDEX_LIMIT = 16 << 20
OP_LIMIT = 256 << 20
TUNING_LIMIT = 100_000


class Runtime(Immutable, kw_only=True):
    """The small library that every object for one host processor is linked against, by its name. A cache of cubins
    alone has none."""

    host: Host
    soname: str
    blob: Blob

    def to_json(self) -> dict[str, Any]:
        return {"host": self.host.to_json(), "blob": self.blob.to_json(), "soname": self.soname}

    @classmethod
    def parse(cls, value: object) -> Runtime:
        data = fields.known(fields.as_object(value), ("soname", "host", "blob"))
        return cls(
            soname=fields.matching(data, "soname", SONAME, "a runtime library's name"),
            host=fields.parsed(data, "host", Host.parse),
            blob=fields.parsed(data, "blob", Blob.parse),
        )


class OpEntry(Immutable, kw_only=True):
    """What the root says of an op: the digest and size of its file, and how many artifacts that lists."""

    sha256: str
    size: int
    artifacts: int

    def to_json(self) -> dict[str, Any]:
        return {"artifacts": self.artifacts, "sha256": self.sha256, "size": self.size}

    @classmethod
    def parse(cls, value: object) -> OpEntry:
        data = fields.known(fields.as_object(value), ("sha256", "size", "artifacts"))
        return cls(
            sha256=fields.matching(data, "sha256", SHA256, "a SHA-256 digest"),
            size=fields.count(data, "size", most=OP_LIMIT),
            artifacts=fields.count(data, "artifacts", most=1_000_000),
        )


class Index(Immutable, kw_only=True):
    """The root of a cache. ``toolchain`` says which versions made it, by package name."""

    name: str
    toolchain: dict[str, str]
    runtimes: tuple[Runtime, ...]
    ops: dict[str, OpEntry]
    dictionary: Blob | None = None

    def encode(self) -> bytes:
        """The bytes of ``index.json``: sorted and free of time and place, so that the same index has the same bytes."""
        return encode(
            {
                "format": FORMAT,
                "version": _FIRST,
                "name": self.name,
                "toolchain": self.toolchain,
                "runtimes": [r.to_json() for r in sorted(self.runtimes, key=lambda r: r.host.arch)],
                "dictionary": self.dictionary.to_json() if self.dictionary else None,
                "ops": {op: entry.to_json() for op, entry in self.ops.items()},
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Index:
        """Read ``index.json``; a format or version this reader does not know is refused."""
        root = fields.as_object(fields.read_json(data, limit=INDEX_LIMIT))
        check_version(root, FORMAT, newest=VERSION)
        fields.known(root, ("format", "version", "name", "toolchain", "runtimes", "dictionary", "ops"))
        ops = fields.table(root, "ops", OpEntry.parse, most=100_000)
        for op in ops:
            if not OP_NAME.admits(op):
                raise FormatError("not the name of an op", f"ops.{op[:80]}")
        return cls(
            name=fields.matching(root, "name", CACHE_NAME, "a cache name"),
            toolchain=fields.table(root, "toolchain", fields.text, most=256),
            runtimes=fields.items(root, "runtimes", Runtime.parse, most=8),
            dictionary=fields.parsed(root, "dictionary", lambda v: None if v is None else Blob.parse(v)),
            ops=ops,
        )


class OpIndex(Immutable, kw_only=True):
    """One op: the keys of its config and its artifacts.

    ``artifacts`` are parsed one by one when asked for: an op may have thousands, and a lookup needs a few.
    """

    op: str
    keys: tuple[Key, ...]
    doc: str = ""
    rows: Rows | Sequence[Mapping[str, Any]] = ()
    tuning_rows: tuple[Any, ...] = ()
    version: int = _FIRST
    _parsed: dict[int, Artifact] = field(default_factory=dict, compare=False, repr=False)
    _buckets: list[dict[Hashable, list[int]]] = field(default_factory=list, compare=False, repr=False)
    _tuning: list[tuple[Measured, ...]] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        *,
        op: str,
        keys: tuple[Key, ...],
        doc: str,
        artifacts: tuple[Artifact, ...],
        tuning: tuple[Measured, ...] = (),
    ) -> OpIndex:
        """An op's index out of values, sorted the one way that a file has them."""
        ordered = sorted(artifacts, key=_place)
        version = _WITH_ASSUMPTIONS if any(a.assumes for a in ordered) else _FIRST
        version = _WITH_PROGRAMS if any(a.program for a in ordered) else version
        rows = tuple(a.to_json() for a in ordered)
        if not tuning:
            return cls(op=op, keys=keys, doc=doc, rows=rows, version=version)
        with IMPORT_LOCK:
            from precast.loader.format.tuning import to_tables
        tables = tuple(to_tables(tuning))
        return cls(op=op, keys=keys, doc=doc, rows=rows, tuning_rows=tables, version=max(version, _WITH_TABLES))

    def artifact(self, position: int) -> Artifact:
        """The artifact at a position, parsed and checked at its first use."""
        found = self._parsed.get(position)
        if found is None:
            try:
                row = self.rows[position]
                if self.version < _WITH_ASSUMPTIONS and "assumes" in row:
                    raise FormatError(f"a file of version {self.version} has no such field", "assumes")
                if self.version < _WITH_PROGRAMS and "program" in row:
                    raise FormatError(f"a file of version {self.version} has no such field", "program")
                found = Artifact.parse(row)
            except FormatError as error:
                raise error.within(position).within("artifacts").within(f"ops/{self.op}.json:") from None
            self._parsed[position] = found
        return found

    def positions(self, of: Callable[[Any], Hashable], wanted: Hashable) -> list[int]:
        """The positions of the rows for whose config ``of`` returns a value. It is called once for each row."""
        if not self._buckets:
            table: dict[Hashable, list[int]] = {}
            configs = self.rows.configs if isinstance(self.rows, Rows) else [row.get("config") for row in self.rows]
            for position, config in enumerate(configs):
                try:
                    table.setdefault(of(config), []).append(position)
                except (AttributeError, TypeError):  # no config at all, or one that holds objects
                    table.setdefault(None, []).append(position)
            self._buckets.append(table)
        return sorted(self._buckets[0].get(wanted, []) + self._buckets[0].get(None, []))

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Every artifact, in the file's order."""
        return tuple(self.artifact(position) for position in range(len(self.rows)))

    @property
    def tuning(self) -> tuple[Measured, ...]:
        """The measurements, parsed and checked at their first use."""
        if not self._tuning:
            with IMPORT_LOCK:
                from precast.loader.format.tuning import parse_table
            try:
                tables = any(isinstance(row, dict) and "rows" in row for row in self.tuning_rows)
                if tables and self.version < _WITH_TABLES:
                    raise FormatError(f"a file of version {self.version} has no tables", "tuning")
                self._tuning.append(parse_table(self.tuning_rows, _keys(self.rows)))
            except FormatError as error:
                raise error.within(f"ops/{self.op}.json:") from None
        return self._tuning[0]

    def encode(self) -> bytes:
        """The bytes of ``ops/<op>.json``."""
        data = {
            "format": OP_FORMAT,
            "version": self.version,
            "op": self.op,
            "doc": self.doc,
            "keys": [key_to_json(k) for k in self.keys],
            "artifacts": list(self.rows),
        }
        return encode({**data, "tuning": list(self.tuning_rows)} if self.tuning_rows else data)

    @classmethod
    def decode(cls, data: bytes, *, op: str, place: str = "") -> OpIndex:
        """Read the file of ``op``, which is at ``place``; a file of another op is refused."""
        text = fields.read_text(data, limit=OP_LIMIT)
        apart = split(text, place)
        root = fields.as_object(fields.parse_json(apart[0] if apart else text))
        version = check_version(root, OP_FORMAT, newest=VERSION)
        fields.known(root, ("format", "version", "op", "doc", "keys", "artifacts", "tuning"))
        if fields.get(root, "op", str) != op:
            raise FormatError(f"this is not the file of {op!r}", "op")
        rows = apart[1] if apart else fields.items(root, "artifacts", fields.as_object, most=1_000_000)
        _refuse_repeats(rows)
        return cls(
            op=op,
            keys=fields.items(root, "keys", parse_key, most=256),
            doc=fields.get(root, "doc", str, ""),
            rows=rows,
            tuning_rows=fields.items(root, "tuning", fields.as_object, most=TUNING_LIMIT, default=()),
            version=version,
        )


def _place(artifact: Artifact) -> tuple[Any, ...]:
    """What the artifacts of a file are sorted by. The key comes last: it is another with every version of a tool."""
    arch = artifact.host.arch if artifact.host else ""
    return artifact.rank, str(artifact.target), artifact.kind, arch, config_order(artifact.config), artifact.key


def _keys(rows: Rows | Sequence[fields.Object]) -> Sequence[Any]:
    return rows.keys if isinstance(rows, Rows) else [row.get("key") for row in rows]


def _refuse_repeats(rows: Rows | Sequence[fields.Object]) -> None:
    """An artifact is known by its key, so no two may have the same one."""
    seen: set[str] = set()
    for position, key in enumerate(_keys(rows)):
        if isinstance(key, str):
            if key in seen:
                raise FormatError("the key occurs twice", "key").within(position).within("artifacts")
            seen.add(key)


def encode(data: object) -> bytes:
    """JSON as a cache holds it: sorted, one space of indent so that two can be compared by line, ASCII."""
    return (json.dumps(data, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode()


def digest(data: bytes) -> str:
    """The SHA-256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def check_version(root: fields.Object, expected: str, *, newest: int = _FIRST) -> int:
    """The version of a file of this format; another format is refused, and a version this reader does not know."""
    name = fields.get(root, "format", str)
    if name != expected:
        raise FormatError(f"{name[:80]!r} is not {expected!r}", "format")
    version = fields.get(root, "version", int)
    if not _FIRST <= version <= newest:
        newer = "upgrade precast-loader" if version > newest else "rebuild the cache"
        known = f"version {_FIRST}" if newest == _FIRST else f"versions {_FIRST} to {newest}"
        raise FormatError(f"this reader knows {known}, not {version}: {newer}", "version")
    return version


def key_to_json(key: Key) -> dict[str, Any]:
    """A config key as the index holds it."""
    data: dict[str, Any] = {"name": key.name, "type": key.type, "tuned": key.tuned}
    if key.has_default:
        data["default"] = to_json(key.default)
    if key.choices:
        data["choices"] = [to_json(c) for c in key.choices]
    return data


def parse_key(value: object) -> Key:
    """Read a config key."""
    data = fields.known(fields.as_object(value), ("name", "type", "tuned", "default", "choices"))
    return Key(
        name=fields.matching(data, "name", NAME, "a config key"),
        type=fields.matching(data, "type", KEY_TYPE, "a type of config value"),
        tuned=fields.get(data, "tuned", bool),
        has_default="default" in data,
        default=fields.parsed(data, "default", to_value, None),
        choices=fields.items(data, "choices", to_value, most=1024, default=()),
    )
