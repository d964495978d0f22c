"""Coverage: which variants of a plan a cache holds, and which it lacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.build.errors import StoreError
from precast.build.plan.plan import Plan, Variant
from precast.loader.errors import FormatError
from precast.loader.format.artifact import Artifact
from precast.loader.format.config import canonical, to_json
from precast.loader.format.index import Index, OpIndex, digest

_Name = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Missing:
    """An artifact that a plan asks for and a cache lacks."""

    variant: Variant
    op: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """A plan held against a cache. ``extra`` is what the cache holds besides."""

    present: int
    missing: tuple[Missing, ...]
    extra: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As ``precast check --json`` prints it."""
        return {
            "present": self.present,
            "missing": [{**m.variant.to_json(), "op": m.op, "kind": m.kind} for m in self.missing],
            "extra": list(self.extra),
        }


def coverage(plan: Plan, cache: Path) -> Coverage:
    """Hold a plan against the cache at a path. Blobs must be there, of the size the index says."""
    held = {_name(op, artifact): artifact for op, artifact in read_artifacts(cache)}
    whole = {name for name, a in held.items() if _size(cache / "blobs" / a.blob.sha256) == a.blob.stored}
    asked = {
        (op, canonical({k: to_json(c) for k, c in v.config.items()}).decode(), str(v.target), kind): Missing(
            v, op, kind
        )
        for v in plan.variants
        for op in v.produces
        for kind in v.emit
    }
    return Coverage(
        present=sum(name in whole for name in asked),
        missing=tuple(m for name, m in asked.items() if name not in whole),
        extra=tuple(sorted(" ".join(name) for name in held.keys() - asked.keys())),
    )


def read_artifacts(cache: Path) -> list[tuple[str, Artifact]]:
    """Every artifact that the cache at a path lists, with its op."""
    try:
        index = Index.decode((cache / "index.json").read_bytes())
        listed = []
        for op, entry in index.ops.items():
            data = (cache / "ops" / f"{op}.json").read_bytes()
            if digest(data) != entry.sha256:
                raise StoreError(f"{cache}/ops/{op}.json is not the file that the index names: build the cache again")
            listed += [(op, artifact) for artifact in OpIndex.decode(data, op=op).artifacts]
        return listed
    except FileNotFoundError as error:
        raise StoreError(f"{error.filename} is missing: name a folder that 'precast build' made") from None
    except NotADirectoryError as error:
        raise StoreError(f"{error.filename} is not a cache: name a folder that 'precast build' made") from None
    except FormatError as error:
        raise StoreError(f"{cache} is not a cache this version reads: {error}") from None


def _name(op: str, artifact: Artifact) -> _Name:
    config = canonical({name: to_json(value) for name, value in artifact.config.items()}).decode()
    return op, config, str(artifact.target), artifact.kind


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
