"""The index: ``index.json`` at the root of a cache, and one ``ops/<op>.json`` for each op.

The root is small and holds the digest of each op's file, so that a reader loads only the ops that a process requests,
and so that the digest of the root pins everything below it. ``op_reader`` reads the file of an op.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.artifact import Artifact, Blob, Host
from precast.loader.contract.format.config import Key, canonical, config_order, to_json, to_value
from precast.loader.contract.format.patterns import CACHE_NAME, KEY_TYPE, NAME, OP_NAME, SHA256, SONAME
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError
from precast.loader.locks import IMPORT_LOCK

if TYPE_CHECKING:
    from precast.loader.contract.format.tuning.measured import Measured

FORMAT = "precast-cache"
OP_FORMAT = "precast-op"
VERSION = 1
INDEX_LIMIT = 16 << 20
OP_LIMIT = 256 << 20
TUNING_LIMIT = 100_000
MOST_ARTIFACTS = 200_000  # of an op


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
            soname=fields.matching(data, "soname", SONAME, "the name of a runtime library"),
            host=fields.parsed(data, "host", Host.parse),
            blob=fields.parsed(data, "blob", Blob.parse),
        )


class OpEntry(Immutable, kw_only=True):
    """The entry of an op in the root: the digest and size of its file, and the number of its artifacts."""

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
            artifacts=fields.count(data, "artifacts", most=MOST_ARTIFACTS),
        )


class Index(Immutable, kw_only=True):
    """The root of a cache. ``toolchain`` has the versions of the tools that built it, by package name;
    ``companions`` is the blob that lists other compilers' files (``companion_index``)."""

    name: str
    toolchain: dict[str, str]
    runtimes: tuple[Runtime, ...]
    ops: dict[str, OpEntry]
    dictionary: Blob | None = None
    companions: Blob | None = None

    def encode(self) -> bytes:
        """The bytes of ``index.json``. Equal indexes have equal bytes: they are sorted, without times or paths."""
        return encode(
            {
                "format": FORMAT,
                "version": VERSION,
                "name": self.name,
                "toolchain": self.toolchain,
                "runtimes": [r.to_json() for r in sorted(self.runtimes, key=lambda r: r.host.arch)],
                "dictionary": self.dictionary.to_json() if self.dictionary else None,
                "ops": {op: entry.to_json() for op, entry in self.ops.items()},
                **({"companions": self.companions.to_json()} if self.companions else {}),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Index:
        """Read ``index.json``. Raises a FormatError for another format or version."""
        root = fields.as_object(fields.read_json(data, limit=INDEX_LIMIT))
        check_version(root, FORMAT)
        fields.known(root, ("format", "version", "name", "toolchain", "runtimes", "dictionary", "ops", "companions"))
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
            companions=fields.parsed(root, "companions", Blob.parse, None),
        )


class OpIndex(Immutable, kw_only=True):
    """One op: the author's description, the keys of its config, its artifacts, and measurements of these."""

    op: str
    keys: tuple[Key, ...]
    doc: str
    artifacts: tuple[Artifact, ...]
    tuning: tuple[Measured, ...]

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
        """The index of an op, sorted in the order of its file."""
        measurements = tuple(sorted(tuning, key=lambda measured: measured.place))
        return cls(op=op, keys=keys, doc=doc, artifacts=tuple(sorted(artifacts, key=_file_order)), tuning=measurements)

    def encode(self) -> bytes:
        """The bytes of ``ops/<op>.json``. Equal indexes have equal bytes."""
        data = {
            "format": OP_FORMAT,
            "version": VERSION,
            "op": self.op,
            "doc": self.doc,
            "keys": [key_to_json(key) for key in self.keys],
            "artifacts": [artifact.to_json() for artifact in self.artifacts],
        }
        if self.tuning:
            with IMPORT_LOCK:
                from precast.loader.contract.format.tuning.table_writer import tables_of
            data["tuning"] = [table.to_json() for table in tables_of(self.tuning, self._meanings())]
        return encode(data)

    def _meanings(self) -> dict[str, bytes]:
        """Each artifact's config without its tuned keys."""
        tuned = {key.name for key in self.keys if key.tuned}
        configs = {a.key: {n: to_json(v) for n, v in a.config.items() if n not in tuned} for a in self.artifacts}
        return {key: canonical(config) for key, config in configs.items()}


def _file_order(artifact: Artifact) -> tuple[Any, ...]:
    """The sort key of artifacts in a file. The artifact's key comes last: it changes with every version of a tool."""
    arch = artifact.host.arch if artifact.host else ""
    return artifact.rank, str(artifact.target), artifact.kind, arch, config_order(artifact.config), artifact.key


def encode(data: object) -> bytes:
    """JSON as a cache holds it: sorted, ASCII, and with one value on a line, so that two files can be compared."""
    return (json.dumps(data, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode()


def digest(data: bytes) -> str:
    """The SHA-256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def check_version(root: fields.Object, expected: str) -> None:
    """Raise a FormatError for a file of another format, or of another version than 1."""
    name = fields.get(root, "format", str)
    if name != expected:
        raise FormatError(f"{name[:80]!r} is not {expected!r}", "format")
    version = fields.get(root, "version", int)
    if version == VERSION:
        return
    if expected in (FORMAT, OP_FORMAT):
        what, reader, package, again = "the cache", "this loader", "precast-loader", "rebuild the cache"
    else:
        what, reader, package, again = "the file", "this precast", "precast", "write the file again"
    raise FormatError(
        f"{what} has format version {version}; {reader} reads version {VERSION}",
        remedy=f"upgrade {package}" if version > VERSION else again,
    )


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
