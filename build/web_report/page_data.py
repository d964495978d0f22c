"""The data of a page about a cache: variants, contests between them, and changes from another cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from precast.build.bench.report import Report
from precast.build.cache.build_assumptions import gpus_of
from precast.build.cache.contents import ArtifactId, CacheContents
from precast.build.cache.diff import Difference, difference
from precast.build.store.key import artifact_key
from precast.build.store.store import Store
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text, python_text, to_json
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.resolve.evidence import CHECK

_PLACES = 4  # digits of a time that a page holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One artifact. ``seconds`` is the time of its compilation, None if the store does not have it.

    ``share`` is the part of the roofline that it reached at its best problem, ``wins`` the number of ``problems`` at
    which it was the fastest. ``change`` is "added", "changed" or empty, compared with the other cache.
    """

    op: str
    key: str
    config: Mapping[str, Any]
    target: str
    kind: str
    host: str
    stored: int
    size: int
    registers: int
    shared: int
    spilled: int
    kernels: int
    assumes: str
    verified: str
    wrong: str
    get: str
    seconds: float | None = None
    wins: int = 0
    problems: int = 0
    share: float | None = None
    change: str = ""
    changes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the page's script reads it; empty values are left out."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["config"] = {name: to_json(value) for name, value in self.config.items()}
        return {name: value for name, value in data.items() if value not in ("", (), None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """The times of one op's variants with the same meaning config, on one GPU, for each problem.

    ``problems`` has sizes, then the microseconds by the position of a variant in the page, the fastest first.
    """

    op: str
    config: str
    gpu: str
    problems: tuple[tuple[Mapping[str, int], tuple[tuple[int, float], ...]], ...]

    def to_json(self) -> dict[str, Any]:
        """As the page's script reads it."""
        problems = [[dict(sizes), [list(time) for time in times]] for sizes, times in self.problems]
        return {"op": self.op, "config": self.config, "gpu": self.gpu, "problems": problems}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """All data of a page."""

    name: str
    digest: str
    toolchain: Mapping[str, str]
    stored: int
    size: int
    docs: Mapping[str, str]
    variants: tuple[Variant, ...]
    contests: tuple[Contest, ...] = ()
    against: str = ""
    removed: tuple[str, ...] = ()
    cache_changes: tuple[str, ...] = ()
    tuned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the page's script reads it."""
        return {
            "name": self.name,
            "digest": self.digest,
            "toolchain": dict(self.toolchain),
            "stored": self.stored,
            "size": self.size,
            "docs": dict(self.docs),
            "tuned": {op: list(keys) for op, keys in self.tuned.items()},
            "variants": [variant.to_json() for variant in self.variants],
            "contests": [contest.to_json() for contest in self.contests],
            "against": self.against,
            "removed": list(self.removed),
            "cache_changes": list(self.cache_changes),
        }


def page_data(
    contents: CacheContents,
    *,
    against: CacheContents | None = None,
    bench: Report | None = None,
    store: Store | None = None,
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
    """
    blobs = contents.blobs.values()
    changed = difference(against, contents) if against else None
    listed = contents.artifacts
    positions = {artifact.key: position for position, artifact in enumerate(listed.values())}
    contests = tuple(contest for op, index in contents.ops.items() for contest in _contests(op, index, positions))
    wins, tried = _wins(contests)
    shares = _shares(bench) if bench else {}
    seconds = _seconds(store, contents) if store else {}
    variants = []
    for position, (identity, artifact) in enumerate(listed.items()):
        change, changes = _change(identity, changed)
        variants.append(
            Variant(
                **_facts(identity.op, artifact, contents.ops[identity.op]),
                seconds=seconds.get(artifact.key),
                wins=wins.get(position, 0),
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
        stored=sum(blob.stored for blob in blobs),
        size=sum(blob.size for blob in blobs),
        docs={op: index.doc for op, index in contents.ops.items() if index.doc},
        tuned={op: tuple(k.name for k in index.keys if k.tuned) for op, index in contents.ops.items()},
        variants=tuple(variants),
        contests=contests,
        against=against.cache.name if against else "",
        removed=tuple(map(str, changed.removed)) if changed else (),
        cache_changes=tuple(map(str, changed.cache)) if changed else (),
    )


def _facts(op: str, artifact: Artifact, index: OpReader) -> dict[str, Any]:
    used = artifact.resources
    needs = [f"{name} {value}" for name, value in sorted(artifact.assumes.needs.items())] if artifact.assumes else []
    checks = [entry for entry in artifact.evidence if entry.get("check") == CHECK]
    wrong = [str(text) for entry in checks for text in _texts(entry.get("failed"))]
    return {
        "op": op,
        "key": artifact.key,
        "config": artifact.config,
        "target": str(artifact.target),
        "kind": artifact.kind,
        "host": artifact.host.arch if artifact.host else "",
        "stored": artifact.blob.stored,
        "size": artifact.blob.size,
        "registers": max((kernel.registers for kernel in used), default=0),
        "shared": max((kernel.shared for kernel in used), default=0),
        "spilled": max((kernel.local + kernel.stack for kernel in used), default=0),
        "kernels": len(used),
        "assumes": ", ".join([*gpus_of(artifact), *needs]) if artifact.assumes else "",
        "verified": "; ".join(sorted({_where(entry) for entry in checks})),
        "wrong": "; ".join(wrong),
        "get": get_line(op, artifact, index),
    }


def get_line(op: str, artifact: Artifact, index: OpReader) -> str:
    """The line of a program that gets exactly this artifact's variant, without default values."""
    keys = {key.name: key for key in index.keys}
    config = {
        name: value
        for name, value in artifact.config.items()
        if name not in keys or keys[name].tuned or not keys[name].has_default or keys[name].default != value
    }
    given = f", {python_text(config)}" if config else ""
    return f"loader.get({op!r}{given})"


def _where(entry: Mapping[str, Any]) -> str:
    return f"{entry.get('gpu', 'a GPU')}, {str(entry.get('date', ''))[:10]}"


def _texts(value: object) -> Iterable[object]:
    return value if isinstance(value, (list, tuple)) else ()


def _contests(op: str, index: OpReader, positions: Mapping[str, int]) -> Iterator[Contest]:
    tuned = {key.name for key in index.keys if key.tuned}
    meaning = {
        artifact.key: config_text({name: value for name, value in artifact.config.items() if name not in tuned})
        for artifact in index.artifacts
    }
    problems_of: dict[tuple[str, str], list[tuple[Mapping[str, int], tuple[tuple[int, float], ...]]]] = {}
    for row in index.tuning:
        by_meaning: dict[str, list[tuple[int, float]]] = {}
        for key, time in row.times.items():
            if key in meaning:
                by_meaning.setdefault(meaning[key], []).append((positions[key], float(f"{time:.{_PLACES}g}")))
        for config, times in by_meaning.items():
            ordered = tuple(sorted(times, key=lambda pair: pair[1]))
            problems_of.setdefault((config, row.gpu), []).append((row.problem, ordered))
    for (config, gpu), problems in sorted(problems_of.items()):
        yield Contest(op=op, config=config, gpu=gpu, problems=tuple(sorted(problems, key=_sizes)))


def _sizes(problem: tuple[Mapping[str, int], object]) -> list[tuple[str, int]]:
    return sorted(problem[0].items())


def _wins(contests: Iterable[Contest]) -> tuple[dict[int, int], dict[int, int]]:
    """The number of problems at which each variant was the fastest, and at which it was timed."""
    wins: dict[int, int] = {}
    tried: dict[int, int] = {}
    for contest in contests:
        for _, times in contest.problems:
            wins[times[0][0]] = wins.get(times[0][0], 0) + 1
            for position, _ in times:
                tried[position] = tried.get(position, 0) + 1
    return wins, tried


def _shares(bench: Report) -> dict[str, float]:
    shares: dict[str, float] = {}
    for row, at in bench.standings():
        if at is not None:
            shares[row.key] = max(shares.get(row.key, 0.0), round(at.share, 3))
    return shares


def _seconds(store: Store, contents: CacheContents) -> dict[str, float]:
    """The seconds of compilation of the variants that the store still has, by the key of the artifact."""
    keys = {artifact.key for artifact in contents.artifacts.values()}
    kinds = {(identity.op, identity.kind) for identity in contents.artifacts}
    seconds: dict[str, float] = {}
    for path in store.path.glob("??/*.record"):
        for op, kind in kinds:
            key = artifact_key(path.stem, op, kind)
            if key in keys and (record := store.read(path.stem)) is not None:
                seconds[key] = round(record.seconds, 3)
    return seconds


def _change(identity: ArtifactId, changed: Difference | None) -> tuple[str, tuple[str, ...]]:
    if changed is None:
        return "", ()
    if identity in changed.changed:
        return "changed", tuple(map(str, changed.changed[identity]))
    return ("added", ()) if identity in changed.added else ("", ())
