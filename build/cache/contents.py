"""The contents of a cache: the reader for everything that checks, packs, compares or changes caches.

Opening reads the index and every op's file, and checks their digests. Blobs are read on request, and checked against
their digests in the index. ``verify`` reads all of them and keeps none.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from precast.build.plan.variant import Variant, label
from precast.fetch.trust.bundle import BUNDLE_FILE, Bundle, bundle_in
from precast.fetch.trust.statement import INDEX, Statement
from precast.loader.contract.format.artifact import Artifact, Blob
from precast.loader.contract.format.config import Config, canonical, to_json
from precast.loader.contract.format.index import INDEX_LIMIT, OP_LIMIT, Index, digest
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.several_objects import first_op
from precast.loader.errors import FormatError, IntegrityError, PrecastError
from precast.loader.resolve.assumptions import RECORDED
from precast.loader.resolve.cache import Cache

_SHOWN = 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ArtifactId:
    """The identity of an artifact in a cache.

    ``config`` is canonical JSON. ``host`` is the processor of a library, and empty for device code. ``part`` counts
    the cubins of one kernel function. ``assumed`` is canonical JSON of the facts of its GPU that the kernel requested:
    there may be an artifact for each of several GPUs.

    >>> print(ArtifactId("scale", '{"n":1}', "sm_90a", "object", "x86_64"))
    scale(n=1) for sm_90a (object, x86_64)
    """

    op: str
    config: str
    target: str
    kind: str
    host: str
    part: int = 0
    assumed: str = ""

    @classmethod
    def of(cls, op: str, artifact: Artifact, part: int = 0) -> ArtifactId:
        """The identity of an artifact that is listed under an op."""
        host = artifact.host.arch if artifact.host else ""
        assumed = ""
        if RECORDED in artifact.provenance:  # few caches need the table of GPUs
            from precast.build.cache.build_assumptions import asked_by

            assumed = canonical(facts).decode() if (facts := asked_by(artifact)) else ""
        return cls(op, _config(artifact.config), str(artifact.target), artifact.kind, host, part, assumed)

    @property
    def whole(self) -> ArtifactId:
        """The identity of all parts, of all objects of a function, for all GPUs, as a plan lists it."""
        return replace(self, part=0, op=first_op(self.op), assumed="")

    def to_json(self) -> dict[str, Any]:
        """The identity as commands print it with ``--json``."""
        config = json.loads(self.config)
        assumed = {"assumed": json.loads(self.assumed)} if self.assumed else {}
        host = self.host or None
        return {"op": self.op, "config": config, "target": self.target, "kind": self.kind, "host": host, **assumed}

    def __str__(self) -> str:
        host = f", {self.host}" if self.host else ""
        part = f", part {self.part}" if self.part else ""
        gpu = f", assumes {self.assumed}" if self.assumed else ""
        name = label(self.op, json.loads(self.config), self.config)
        return f"{name} for {self.target} ({self.kind}{host}{part}{gpu})"


def artifact_ids(variant: Variant, hosts: Iterable[str]) -> list[ArtifactId]:
    """Every artifact that a variant needs on these hosts, without parts; device code is for all hosts."""
    config, libraries = _config(variant.config), tuple(hosts)
    return [
        ArtifactId(op, config, str(variant.target), kind, host)
        for op in variant.produces
        for kind in variant.emit
        for host in (libraries if kind == "object" else ("",))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of reading every byte of a cache. ``damaged`` has the reason for each invalid blob."""

    files: int
    stored: int
    size: int
    seconds: float
    damaged: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """As ``precast check --json`` prints it; ``size`` counts decoded bytes."""
        seconds = round(self.seconds, 3)
        return {"files": self.files, "stored": self.stored, "size": self.size, "seconds": seconds}


@dataclass(frozen=True)
class CacheContents:
    """An open cache: its index, its ops, its artifacts by identity, and its checked bytes."""

    cache: Cache

    @classmethod
    def open(cls, path: Path) -> CacheContents:
        """Open the cache at a path and read the file of every op. Raises CacheError or IntegrityError."""
        contents = cls(Cache(path))
        _ = contents.ops
        return contents

    def __str__(self) -> str:
        return self.cache.origin

    @property
    def index(self) -> Index:
        """The root of the cache."""
        return self.cache.index

    @cached_property
    def ops(self) -> dict[str, OpReader]:
        """The reader of each op."""
        return {op: self.cache.op(op) for op in sorted(self.index.ops)}

    @cached_property
    def artifacts(self) -> dict[ArtifactId, Artifact]:
        """Every artifact by its identity."""
        artifacts: dict[ArtifactId, Artifact] = {}
        for op, listed in self.ops.items():
            for artifact in listed.artifacts:
                identity = ArtifactId.of(op, artifact)
                while identity in artifacts:
                    identity = replace(identity, part=identity.part + 1)
                artifacts[identity] = artifact
        return artifacts

    @property
    def hosts(self) -> tuple[str, ...]:
        """The processors that the cache has runtime libraries for."""
        return tuple(sorted(r.host.arch for r in self.index.runtimes))

    @cached_property
    def blobs(self) -> dict[str, Blob]:
        """Every blob in the index, by its digest."""
        return {**self.companion_blobs, **self.kernel_blobs}

    @cached_property
    def companion_blobs(self) -> dict[str, Blob]:
        """The blobs of companions, by their digests: the index of them first."""
        companions, listed = self.cache.companions(), self.index.companions
        if companions is None or listed is None:
            return {}
        return {blob.sha256: blob for blob in (listed, *companions.blobs)}

    @cached_property
    def kernel_blobs(self) -> dict[str, Blob]:
        """The blobs of kernels, and what these share, by their digests."""
        named = [blob for a in self.artifacts.values() for blob in a.blobs]
        named += [runtime.blob for runtime in self.index.runtimes]
        named += [self.index.dictionary] if self.index.dictionary else []
        return {blob.sha256: blob for blob in named}

    def read(self, blob: Blob) -> bytes:
        """The decoded bytes of a blob, checked. Raises IntegrityError."""
        return self.cache.read(blob)

    def verify(self) -> Verification:
        """Read, decode and hash every blob, in as many threads as there are processors; none is kept in memory."""
        begun = time.perf_counter()
        blobs = list(self.blobs.values())
        reasons = _in_threads(self._damage, blobs)
        listed = [entry.size for entry in self.index.ops.values()]
        return Verification(
            files=1 + len(listed) + len(blobs),
            stored=sum(listed) + sum(blob.stored for blob in blobs),
            size=sum(listed) + sum(blob.size for blob in blobs),
            seconds=time.perf_counter() - begun,
            damaged={blob.sha256: why for blob, why in zip(blobs, reasons, strict=True) if why},
        )

    def require_intact(self) -> None:
        """Raise IntegrityError, with every reason, unless all blobs match the index."""
        reasons = list(self.verify().damaged.values())
        if reasons:
            more = [f"... and {len(reasons) - _SHOWN} more"] if len(reasons) > _SHOWN else []
            raise IntegrityError("\n".join([*reasons[:_SHOWN], *more]))

    def stored(self, blob: Blob) -> bytes:
        """The bytes of a blob's file, after its content was checked. Raises IntegrityError."""
        data = self.cache.file("blobs", blob.sha256, limit=blob.stored, exact=True)
        self.read(blob)
        if self.cache.file("blobs", blob.sha256, limit=blob.stored, exact=True) != data:
            raise self._replaced()
        return data

    def stored_blobs(self) -> dict[str, bytes]:
        """The bytes of every blob's file by digest, after its content was checked."""
        blobs = list(self.blobs.values())
        return dict(zip(self.blobs, _in_threads(self.stored, blobs), strict=True))

    def files(self) -> dict[str, bytes]:
        """The bytes of every file of the cache by its name, each checked."""
        expected = {"index.json": self.cache.digest}
        expected.update({f"ops/{op}.json": entry.sha256 for op, entry in self.index.ops.items()})
        files = {name: self.cache.file(*name.split("/"), limit=max(INDEX_LIMIT, OP_LIMIT)) for name in expected}
        if any(digest(data) != expected[name] for name, data in files.items()):
            raise self._replaced()
        return {**files, **{f"blobs/{name}": data for name, data in self.stored_blobs().items()}}

    @property
    def signature(self) -> dict[str, bytes]:
        """The file with the signature, by its name: none or one. Whose it is was not checked, only that it is about
        this index: commands that change a cache drop it, and a copy of only some files is an IntegrityError."""
        data = bundle_in(self.cache.path)
        if data is None:
            return {}
        try:
            signed = Statement.parse(Bundle.parse(data).payload).subjects.get(INDEX)
        except FormatError as error:
            raise self._not_signed(f"cannot be read ({error})") from None
        if signed != self.cache.digest:
            raise self._not_signed("is about another index")
        return {BUNDLE_FILE: data}

    def _not_signed(self, why: str) -> IntegrityError:
        return IntegrityError(f"{self.cache.path / BUNDLE_FILE} {why}: sign the cache again, or remove that file")

    def _damage(self, blob: Blob) -> str:
        """The reason why a blob is invalid; empty if it is valid."""
        try:
            self.read(blob)
        except PrecastError as error:
            return str(error)
        return ""

    def _replaced(self) -> IntegrityError:
        return IntegrityError(f"{self.cache.path} changed while it was read: run this again")


def _in_threads(function: Callable[[Blob], _T], blobs: Iterable[Blob]) -> list[_T]:
    """The results of a function for every blob. Reading, decompressing and hashing release the interpreter's lock."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(function, blobs))


def _config(config: Config) -> str:
    return canonical({name: to_json(value) for name, value in config.items()}).decode()
