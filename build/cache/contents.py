"""Opened caches: one cache read whole, every byte checked, as what merges and comparisons work on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.loader.format.artifact import Artifact
from precast.loader.format.config import canonical, to_json
from precast.loader.format.index import Index, OpIndex
from precast.loader.resolve.cache import Cache


@dataclass(frozen=True, slots=True)
class ArtifactId:
    """What an artifact is to whoever asks for it; two artifacts of one name cannot stand in one cache.

    ``host`` is the processor, and empty for device code alone. ``part`` counts the cubins of one kernel function.
    """

    op: str
    config: str
    target: str
    kind: str
    host: str
    part: int = 0

    def to_json(self) -> dict[str, Any]:
        """The name as a machine reads it."""
        config = json.loads(self.config)
        return {"op": self.op, "config": config, "target": self.target, "kind": self.kind, "host": self.host or None}

    def __str__(self) -> str:
        host = f", {self.host}" if self.host else ""
        part = f", part {self.part}" if self.part else ""
        return f"{self.op} {self.config} for {self.target} ({self.kind}{host}{part})"


@dataclass(frozen=True, slots=True)
class CacheContents:
    """A cache, its ops, and its artifacts by name."""

    cache: Cache
    ops: Mapping[str, OpIndex]
    artifacts: Mapping[ArtifactId, Artifact]

    @property
    def index(self) -> Index:
        return self.cache.index

    def __str__(self) -> str:
        return self.cache.origin


def read_contents(path: Path) -> CacheContents:
    """Open the cache at a path and read all of its ops; blobs are read, and checked, when they are asked for."""
    cache = Cache(path)
    ops = {op: cache.op(op) for op in sorted(cache.index.ops)}
    artifacts: dict[ArtifactId, Artifact] = {}
    for op, listed in ops.items():
        for artifact in listed.artifacts:
            part = 0
            while (name := artifact_id(op, artifact, part)) in artifacts:
                part += 1
            artifacts[name] = artifact
    return CacheContents(cache, ops, artifacts)


def artifact_id(op: str, artifact: Artifact, part: int = 0) -> ArtifactId:
    """The name of an artifact that is filed under an op."""
    config = canonical({name: to_json(value) for name, value in artifact.config.items()}).decode()
    host = artifact.host.arch if artifact.host else ""
    return ArtifactId(op, config, str(artifact.target), artifact.kind, host, part)
