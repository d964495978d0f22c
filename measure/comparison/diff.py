"""Differences between two caches: artifacts that only one of them has, and changes of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from precast.build.cache.contents import ArtifactId, CacheContents
from precast.build.cache.freshness import INPUTS, read_by_author
from precast.build.cache.merge import artifact_facts, differing_facts, runtime_facts
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import canonical, config_text
from precast.loader.contract.format.index import digest, key_to_json
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.tuning.measured import Measured
from precast.measure.comparison.key_parts import KeyParts, key_changes

_COUNTED = ("registers", "shared", "stack", "local")


@dataclass(frozen=True, slots=True)
class Change:
    """One fact, before and after."""

    what: str
    before: Any
    after: Any

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "before": self.before, "after": self.after}

    def __str__(self) -> str:
        numbers = all(isinstance(value, int) for value in (self.before, self.after))
        sign = f" ({self.after - self.before:+d})" if numbers else ""
        return f"{self.what} {_show(self.before)} -> {_show(self.after)}{sign}"


@dataclass(frozen=True, slots=True)
class InputChange:
    """An input of artifacts of both caches that has changed: its digests, "" where it was not read."""

    name: str
    before: str
    after: str
    artifacts: tuple[ArtifactId, ...]

    def to_json(self) -> dict[str, Any]:
        """As ``precast diff --inputs --json`` prints it."""
        artifacts = [artifact.to_json() for artifact in self.artifacts]
        return {"name": self.name, "before": self.before, "after": self.after, "artifacts": artifacts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two caches compared. ``same`` means that all bytes are equal: the index has the digests of all files."""

    same: bool
    cache: tuple[Change, ...] = ()
    added: tuple[ArtifactId, ...] = ()
    removed: tuple[ArtifactId, ...] = ()
    changed: Mapping[ArtifactId, tuple[Change, ...]] = field(default_factory=dict)
    unchanged: int = 0

    def to_json(self) -> dict[str, Any]:
        """As ``precast diff --json`` prints it."""
        return {
            "same": self.same,
            "cache": [c.to_json() for c in self.cache],
            "added": [name.to_json() for name in self.added],
            "removed": [name.to_json() for name in self.removed],
            "changed": [{**n.to_json(), "changes": [c.to_json() for c in cs]} for n, cs in self.changed.items()],
            "unchanged": self.unchanged,
        }


def difference(before: CacheContents, after: CacheContents, parts: KeyParts | None = None) -> Difference:
    """The changes from one cache to another. Every byte of both is checked first; damage is an IntegrityError.

    ``parts`` names what has changed in a key, where nothing in the indexes does.
    """
    before.require_intact()
    after.require_intact()
    old, new = before.artifacts, after.artifacts
    both = sorted(old.keys() & new.keys(), key=str)
    changed = {name: changes for name in both if (changes := tuple(_artifact(old[name], new[name], parts, name.op)))}
    return Difference(
        same=before.cache.digest == after.cache.digest,
        cache=tuple(_cache(before, after)),
        added=tuple(sorted(new.keys() - old.keys(), key=str)),
        removed=tuple(sorted(old.keys() - new.keys(), key=str)),
        changed=changed,
        unchanged=len(both) - len(changed),
    )


def input_changes(before: CacheContents, after: CacheContents) -> tuple[InputChange, ...]:
    """The inputs that differ between the artifacts that both caches have, as their indexes list them."""
    changes: dict[tuple[str, str, str], list[ArtifactId]] = {}
    for identity in sorted(before.artifacts.keys() & after.artifacts.keys(), key=str):
        was, is_ = read_by_author(before.artifacts[identity]), read_by_author(after.artifacts[identity])
        for name in sorted(was.keys() | is_.keys()):
            if was.get(name, "") != is_.get(name, ""):
                changes.setdefault((name, was.get(name, ""), is_.get(name, "")), []).append(identity)
    return tuple(InputChange(*change, tuple(artifacts)) for change, artifacts in sorted(changes.items()))


def _cache(before: CacheContents, after: CacheContents) -> Iterator[Change]:
    """Changes of a cache as a whole: its name, its toolchain, its runtime libraries, its ops, its size."""
    old, new = before.index, after.index
    if old.name != new.name:
        yield Change("name", old.name, new.name)
    for tool in sorted({*old.toolchain, *new.toolchain}):
        if old.toolchain.get(tool) != new.toolchain.get(tool):
            yield Change(tool, old.toolchain.get(tool), new.toolchain.get(tool))
    runtimes = [{r.host.arch: r for r in index.runtimes} for index in (old, new)]
    for host in sorted({*runtimes[0], *runtimes[1]}):
        was, is_ = (runtime_facts(r[host]) if host in r else None for r in runtimes)
        if was != is_:
            yield Change(f"runtime library for {host}", was and was[0], is_ and is_[0])
    for op in sorted(before.ops.keys() & after.ops.keys()):
        keys = [[key_to_json(k) for k in ops[op].keys] for ops in (before.ops, after.ops)]
        if keys[0] != keys[1]:
            yield Change(f"config keys of {op}", *keys)
        if before.ops[op].doc != after.ops[op].doc:
            yield Change(f"text of {op}", before.ops[op].doc, after.ops[op].doc)
        tables = [_tuning(ops[op]) for ops in (before.ops, after.ops)]
        if tables[0] != tables[1]:
            yield Change(f"measurements of {op}", *tables)
    sizes = [stored_size(cache) for cache in (before, after)]
    if sizes[0] != sizes[1]:
        yield Change("bytes stored", *sizes)


def _tuning(listed: OpReader) -> str:
    """A summary of the measurements of an op: the number of times, and a digest.

    Keys change with any source, so the digest uses configs and targets instead.
    """
    names = {
        a.key: [config_text(a.config), str(a.target), a.kind, a.host.arch if a.host else ""] for a in listed.artifacts
    }
    rows = [
        [*map(str, row.place), sorted((names[k], time, _cut(row, k)) for k, time in row.times.items())]
        for row in listed.tuning
    ]
    if not rows:
        return "none"
    number = sum(len(row.times) for row in listed.tuning)
    return f"{number} times ({digest(canonical(rows))[:8]})"


def _cut(row: Measured, key: str) -> str:
    """The tiling of an artifact for the problem of a row, if it is known, as text that can be sorted."""
    return canonical(row.tilings[key].to_json()).decode() if key in row.tilings else ""


def stored_size(cache: CacheContents) -> int:
    """The bytes of all blobs of a cache, each once."""
    return sum(blob.stored for blob in cache.blobs.values())


def provenance_changes(old: Artifact, new: Artifact) -> tuple[Change, ...]:
    """What differs in the provenance of two artifacts, the inputs among it."""
    return tuple(_provenance(old, new))


def _artifact(old: Artifact, new: Artifact, parts: KeyParts | None, op: str) -> Iterator[Change]:
    """The changes of an artifact, the most important ones first."""
    names = differing_facts(old, new)
    mine, theirs = artifact_facts(old), artifact_facts(new)
    if "bytes" in names:
        yield Change("content", old.blob.sha256[:12], new.blob.sha256[:12])
    if old.blob.size != new.blob.size:
        yield Change("bytes", old.blob.size, new.blob.size)
    if "resources" in names:
        yield from _resources(old, new)
    if "provenance" in names:
        yield from _provenance(old, new)
    if "ptx" in names:
        yield Change("ptx", *(a.ptx.sha256[:12] if a.ptx else None for a in (old, new)))
    others = [name for name in names if name not in ("bytes", "key", "provenance", "ptx", "resources")]
    yield from (Change(name, mine.get(name), theirs.get(name)) for name in others)
    if "key" in names and "provenance" not in names:
        made_of = [parts.of(a.key, op, a.kind) for a in (old, new)] if parts else [None, None]
        changes = [Change(f"key's {c.name}", c.then or None, c.now or None) for c in key_changes(*made_of)]
        if changes or names == ["key"]:
            yield Change("key", old.key[:12], new.key[:12])
        yield from changes


def _provenance(old: Artifact, new: Artifact) -> Iterator[Change]:
    """Changes of the provenance, one for each fact, and of the inputs."""
    mine, theirs = old.provenance, new.provenance
    for name in sorted(mine.keys() | theirs.keys()):
        if name != INPUTS and mine.get(name) != theirs.get(name):
            yield Change(name, mine.get(name), theirs.get(name))
    was, is_ = read_by_author(old), read_by_author(new)
    for name in sorted(was.keys() | is_.keys()):
        if was.get(name) != is_.get(name):
            yield Change(name, was.get(name, "nothing")[:12], is_.get(name, "nothing")[:12])


def _resources(old: Artifact, new: Artifact) -> Iterator[Change]:
    """Changes of device kernels, compared in their order, because the compiler's names for them may change."""
    many = len(old.resources) > 1 or len(new.resources) > 1
    if len(old.resources) != len(new.resources):
        yield Change("device kernels", len(old.resources), len(new.resources))
        return
    for number, (was, is_) in enumerate(zip(old.resources, new.resources, strict=True)):
        for what in _COUNTED:
            if getattr(was, what) != getattr(is_, what):
                label = {"shared": "shared memory", "local": "spills"}.get(what, what)
                yield Change(f"kernel {number} {label}" if many else label, getattr(was, what), getattr(is_, what))
        if was.kernel != is_.kernel:
            yield Change(f"kernel {number} name" if many else "kernel", was.kernel, is_.kernel)


def _show(value: Any) -> str:
    return "none" if value is None else str(value)
