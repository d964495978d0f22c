"""Artifacts: one compiled variant each, as the index describes it."""

from __future__ import annotations

import functools
import marshal
from dataclasses import field
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.config import Config, to_json, to_value
from precast.loader.contract.format.patterns import GLIBC, NAME, SHA256, SYMBOL
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Target
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError
from precast.loader.locks import IMPORT_LOCK

if TYPE_CHECKING:
    from precast.loader.contract.format.assumptions import Assumptions
    from precast.loader.contract.format.program.host_program import HostProgram

BLOB_LIMIT = 64 << 20
_REMEMBERED = 1000
HOSTS = ("x86_64", "aarch64")
ENCODINGS = ("raw", "zstd", "zstd+dictionary")


class Blob(Immutable, kw_only=True):
    """A file in ``blobs/``, named by the digest of its decoded bytes."""

    sha256: str
    size: int
    stored: int
    encoding: str

    def to_json(self) -> dict[str, Any]:
        return {"encoding": self.encoding, "sha256": self.sha256, "size": self.size, "stored": self.stored}

    @classmethod
    def parse(cls, value: object) -> Blob:
        data = fields.known(fields.as_object(value), ("sha256", "size", "stored", "encoding"))
        return cls(
            sha256=fields.matching(data, "sha256", SHA256, "a SHA-256 digest"),
            size=fields.count(data, "size", most=BLOB_LIMIT),
            stored=fields.count(data, "stored", most=BLOB_LIMIT),
            encoding=fields.one_of(data, "encoding", ENCODINGS),
        )


class Host(Immutable, kw_only=True):
    """The machine a host-side library runs on: its processor and the oldest glibc that has what it needs."""

    arch: str
    glibc: str

    def to_json(self) -> dict[str, Any]:
        return {"arch": self.arch, "glibc": self.glibc}

    @classmethod
    def parse(cls, value: object) -> Host:
        data = fields.known(fields.as_object(value), ("arch", "glibc"))
        return _host(
            fields.one_of(data, "arch", HOSTS),
            fields.matching(data, "glibc", GLIBC, "a glibc version"),
        )


@functools.lru_cache(maxsize=64)  # the artifacts of a cache share a few
def _host(arch: str, glibc: str) -> Host:
    return Host(arch=arch, glibc=glibc)


class Resources(Immutable, kw_only=True):
    """What a device kernel in an artifact uses, by ``cuobjdump``: registers, and bytes of each memory."""

    kernel: str
    registers: int
    shared: int
    stack: int
    local: int

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "local": self.local,
            "registers": self.registers,
            "shared": self.shared,
            "stack": self.stack,
        }

    @classmethod
    def parse(cls, value: object) -> Resources:
        data = fields.known(fields.as_object(value), ("kernel", "registers", "shared", "stack", "local"))
        return cls(
            kernel=fields.get(data, "kernel", str),
            **{n: fields.count(data, n, most=2**31) for n in ("registers", "shared", "stack", "local")},
        )


class Artifact(Immutable, kw_only=True):
    """One compiled variant: what it is, where it runs, where its bytes are, and where it came from.

    ``rank`` is the author's order among variants that differ in tuned keys only: lower is preferred. ``program`` is how
    a cubin is launched; a cubin without one is for tools to read. ``assumes`` has the facts of the GPU that were
    compiled in. ``ptx`` is the text that the device code was made of, where the cache keeps it, and for tools.
    ``provenance`` and ``evidence`` are for people and tools; the loader reads ``evidence`` only if the caller requires
    a verified artifact.
    """

    key: str
    config: Config
    target: Target
    kind: str
    blob: Blob
    symbol: str
    signature: Signature
    host: Host | None = None
    rank: int = 0
    resources: tuple[Resources, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[dict[str, Any], ...] = ()
    assumes: Assumptions | None = None
    program: HostProgram | None = None
    ptx: Blob | None = None

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """All its blobs: its bytes, and its PTX if the cache keeps that."""
        return (self.blob, self.ptx) if self.ptx else (self.blob,)

    @property
    def launchable(self) -> bool:
        """Whether the loader can launch it."""
        return self.kind == "object" or self.program is not None

    def to_json(self) -> dict[str, Any]:
        return {
            **({"program": self.program.to_json()} if self.program else {}),
            **({"assumes": self.assumes.to_json()} if self.assumes else {}),
            **({"ptx": self.ptx.to_json()} if self.ptx else {}),
            "blob": self.blob.to_json(),
            "config": {name: to_json(value) for name, value in self.config.items()},
            "evidence": list(self.evidence),
            "host": self.host.to_json() if self.host else None,
            "key": self.key,
            "kind": self.kind,
            "provenance": self.provenance,
            "rank": self.rank,
            "resources": [r.to_json() for r in self.resources],
            "signature": self.signature.to_json(),
            "symbol": self.symbol,
            "target": str(self.target),
        }

    @classmethod
    def parse(cls, value: object) -> Artifact:
        names = (
            "key", "config", "target", "host", "kind", "blob", "symbol", "rank",
            "signature", "resources", "provenance", "evidence", "assumes", "program", "ptx",
        )  # fmt: skip
        data = fields.known(fields.as_object(value), names)
        artifact = cls(
            key=fields.matching(data, "key", SHA256, "a SHA-256 digest"),
            config=parse_config(data),
            target=fields.parsed(data, "target", Target.parse),
            kind=fields.one_of(data, "kind", ("object", "cubin")),
            blob=fields.parsed(data, "blob", Blob.parse),
            symbol=fields.matching(data, "symbol", SYMBOL, "a symbol name"),
            signature=fields.parsed(data, "signature", _signature),
            host=fields.parsed(data, "host", lambda v: None if v is None else Host.parse(v)),
            rank=fields.count(data, "rank", most=2**31),
            resources=fields.items(data, "resources", Resources.parse, most=256, default=()),
            provenance=dict(fields.parsed(data, "provenance", fields.as_object, {})),
            evidence=tuple(dict(e) for e in fields.items(data, "evidence", fields.as_object, most=256, default=())),
            assumes=fields.parsed(data, "assumes", _assumptions, None),
            program=fields.parsed(data, "program", _program, None),
            ptx=fields.parsed(data, "ptx", Blob.parse, None),
        )
        if artifact.kind == "object" and artifact.host is None:
            raise FormatError("an object needs its host", "host")
        if artifact.program is not None:
            if artifact.kind != "cubin":
                raise FormatError("only a cubin has a host program", "program")
            artifact.program.check(artifact.signature)
        return artifact


_signatures: dict[bytes, Signature] = {}


def _signature(value: Any) -> Signature:
    """A signature. Most variants of an op share one, which is parsed once; equal bytes of ``marshal`` are equal values
    of equal types, and are made in a fifth of the time of their text. They are not read."""
    try:
        text = marshal.dumps(value, 2)  # a later version has references, which differ between equal values
    except ValueError:
        raise FormatError("nests too deep") from None
    signature = _signatures.get(text)
    if signature is None:
        signature = Signature.parse(value)
        if len(_signatures) < _REMEMBERED:
            _signatures[text] = signature
    return signature


def _program(value: object) -> HostProgram:
    with IMPORT_LOCK:
        from precast.loader.contract.format.program.host_program import HostProgram
    return HostProgram.parse(value)


def _assumptions(value: object) -> Assumptions:
    with IMPORT_LOCK:
        from precast.loader.contract.format.assumptions import Assumptions
    return Assumptions.parse(value)


def parse_config(data: fields.Object) -> dict[str, Any]:
    """The config of an artifact, its names checked and its lists as tuples."""
    config = fields.table(data, "config", to_value, most=256)
    for name in config:
        if not NAME.admits(name):
            raise FormatError("not a config key", f"config.{name[:80]}")
    return config
