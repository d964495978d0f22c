"""The data of a page about a cache: variants, contests between them, times, and changes from another cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from precast.build.cache.contents import ArtifactId, CacheContents
from precast.build.store.store import Store
from precast.loader.contract.format.op_reader import OpReader
from precast.measure.bench.report import Report
from precast.measure.comparison.diff import Difference, difference
from precast.measure.web_report.contest import Contest, contests, wins
from precast.measure.web_report.variant import Variant, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A time of ``precast bench`` with the least possible one, in microseconds; ``position`` is the variant's."""

    position: int
    microseconds: float
    least: float
    bound: str
    problem: str

    def to_json(self) -> list[Any]:
        """As the page's script reads it."""
        return [self.position, self.microseconds, self.least, self.bound, self.problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """All data of a page.

    ``stored`` and ``size`` are the bytes of all blobs, compressed and not; ``ptx`` those of the PTX, ``shared`` those
    of no variant, both compressed. ``changed_facts`` counts the variants in which a fact has changed, compared with
    the other cache.
    """

    name: str
    digest: str
    toolchain: Mapping[str, str]
    stored: int
    size: int
    docs: Mapping[str, str]
    variants: tuple[Variant, ...]
    contests: tuple[Contest, ...] = ()
    ptx: int = 0
    shared: int = 0
    against: str = ""
    against_digest: str = ""
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    changed_facts: Mapping[str, int] = field(default_factory=dict)
    cache_changes: tuple[str, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tuned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    built: str = ""
    timed: tuple[Timed, ...] = ()
    timed_on: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the page's script reads it."""
        return {
            "name": self.name,
            "digest": self.digest,
            "toolchain": dict(self.toolchain),
            "stored": self.stored,
            "size": self.size,
            "docs": dict(self.docs),
            "keys": {op: list(keys) for op, keys in self.keys.items()},
            "tuned": {op: list(keys) for op, keys in self.tuned.items()},
            "variants": [variant.to_json() for variant in self.variants],
            "contests": [contest.to_json() for contest in self.contests],
            "ptx": self.ptx,
            "shared": self.shared,
            "against": self.against,
            "against_digest": self.against_digest,
            "removed": list(self.removed),
            "unchanged": self.unchanged,
            "changed_facts": list(self.changed_facts.items()),
            "cache_changes": list(self.cache_changes),
            "built": self.built,
            "timed": [timed.to_json() for timed in self.timed],
            "timed_on": self.timed_on,
        }


def page_data(
    contents: CacheContents,
    *,
    against: CacheContents | None = None,
    bench: Report | None = None,
    store: Store | None = None,
    seconds: int | None = None,
) -> PageData:
    """The data of a page about a cache.

    Parameters
    ----------
    contents
        The cache.
    against
        An earlier state of the cache. Every byte of both is then read and checked.
    bench
        The file of ``precast bench -o``, for the share of the roofline that each variant reached.
    store
        The store of the build, for the time that each variant took to compile.
    seconds
        When the cache was built, in seconds since 1970.
    """
    blobs = contents.blobs.values()
    changed = difference(against, contents) if against else None
    listed = contents.artifacts
    positions = {artifact.key: position for position, artifact in enumerate(listed.values())}
    stored = sum(blob.stored for blob in blobs)
    texts = {artifact.ptx.sha256: artifact.ptx.stored for artifact in listed.values() if artifact.ptx}
    code = {artifact.blob.sha256: artifact.blob.stored for artifact in listed.values()}
    measured = tuple(contest for op, index in contents.ops.items() for contest in contests(op, index, positions))
    won, tried = wins(measured)
    shares = _shares(bench) if bench else {}
    compiled = _seconds(store, contents) if store else {}
    variants = []
    for position, (identity, artifact) in enumerate(listed.items()):
        change, changes = _change(identity, changed)
        variants.append(
            Variant(
                **facts(identity.op, artifact, contents.ops[identity.op]),
                seconds=compiled.get(artifact.key),
                wins=won.get(position, 0),
                problems=tried.get(position, 0),
                share=shares.get(artifact.key),
                change=change,
                changes=changes,
            )
        )
    return PageData(
        name=contents.cache.name,
        digest=contents.cache.digest,
        toolchain=contents.index.toolchain,
        stored=stored,
        size=sum(blob.size for blob in blobs),
        docs={op: index.doc for op, index in contents.ops.items() if index.doc},
        keys={op: _columns(index) for op, index in contents.ops.items()},
        tuned={op: tuple(k.name for k in index.keys if k.tuned) for op, index in contents.ops.items()},
        variants=tuple(variants),
        contests=measured,
        ptx=sum(texts.values()),
        shared=stored - sum({**texts, **code}.values()),
        against=against.cache.name if against else "",
        against_digest=against.cache.digest if against else "",
        removed=tuple(map(str, changed.removed)) if changed else (),
        unchanged=changed.unchanged if changed else 0,
        changed_facts=_changed_facts(changed) if changed else {},
        cache_changes=tuple(map(str, changed.cache)) if changed else (),
        built="" if seconds is None else f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M} UTC",
        timed=tuple(_timed(bench, positions)) if bench else (),
        timed_on=bench.gpu if bench else "",
    )


def _timed(bench: Report, positions: Mapping[str, int]) -> Iterator[Timed]:
    for row, at in bench.standings():
        if at is not None and row.key in positions:
            yield Timed(
                position=positions[row.key],
                microseconds=round(at.microseconds, 2),
                least=round(at.least, 3),
                bound=at.bound,
                problem=", ".join(f"{name} {size}" for name, size in sorted(row.timing.problem.items()) if size),
            )


def _shares(bench: Report) -> dict[str, float]:
    shares: dict[str, float] = {}
    for row, at in bench.standings():
        if at is not None:
            shares[row.key] = max(shares.get(row.key, 0.0), round(at.share, 3))
    return shares


def _seconds(store: Store, contents: CacheContents) -> dict[str, float]:
    """The seconds of compilation of the variants that the store still has, by the key of the artifact."""
    seconds: dict[str, float] = {}
    for identity, artifact in contents.artifacts.items():
        record = store.record_of(artifact.key, identity.op, identity.kind)
        if record is not None:
            seconds[artifact.key] = round(record.seconds, 3)
    return seconds


def _columns(index: OpReader) -> tuple[str, ...]:
    """The config keys in the order of the table: what a caller must name first, as the author declared them."""
    return tuple(key.name for key in sorted(index.keys, key=lambda key: key.tuned))


def _changed_facts(changed: Difference) -> dict[str, int]:
    """In how many variants each fact has changed, the most frequent first."""
    counts = Counter(name for changes in changed.changed.values() for name in {change.what for change in changes})
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _change(identity: ArtifactId, changed: Difference | None) -> tuple[str, tuple[str, ...]]:
    if changed is None:
        return "", ()
    if identity in changed.changed:
        return "changed", tuple(map(str, changed.changed[identity]))
    return ("added", ()) if identity in changed.added else ("", ())
