"""Contests: the candidates of a cache that compute the same on this GPU, and the problems to measure them at.

Everything is read from the cache and the manifests: no kernel is compiled, and the compiler is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from precast.build.measurements.fit import code_digest
from precast.build.measurements.tuning_file import Sizes, config_json, sizes_of
from precast.build.plan.describer import Description
from precast.build.plan.entry import Entry
from precast.build.plan.manifest import Manifest
from precast.build.plan.matrix import Matrix, matrix_of
from precast.kernels.authoring.declare import Problem
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Config, Key, canonical, config_text
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.target import Target
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.resolve.cache import Cache

Obstacle = Callable[[Artifact], str]
"""The reason why this GPU must not launch an artifact; empty if it may."""

Cut = Callable[[str, Artifact], Tiling | None]
"""The tiling of an artifact of an op on this GPU; None if it is not declared."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One candidate: its artifact's key, its tuned config, the digest of its device code."""

    key: str
    tuned: Config
    code: str
    rank: int = 0
    stored: int = 0
    tiling: Tiling | None = None

    @property
    def identity(self) -> bytes:
        """The identity in a contest, equal to that of the candidate in a tuning file."""
        return canonical(config_json(self.tuned))

    def __str__(self) -> str:
        return config_text(self.tuned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Candidates of one meaning config and target, in the author's order, and the problems to measure them at."""

    op: str
    config: Config
    target: Target
    contestants: tuple[Contestant, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The identity of the contest in a cache."""
        return canonical([self.op, config_json(self.config), str(self.target)]).decode()

    def __str__(self) -> str:
        return f"{self.op}({config_text(self.config)}) for {self.target}"


def contests(
    cache: Cache, manifests: Iterable[Manifest], obstacle: Obstacle, cut: Cut = lambda op, artifact: None
) -> list[Contest]:
    """Every contest between artifacts that the manifests list and this GPU can run, with their problems.

    The problems are those of the entries. A contest has none where no entry gives any.
    """
    requested = _asked(cache, manifests)
    result: list[Contest] = []
    for op in sorted({op for op, _, _ in requested}):
        keys = cache.op(op).keys
        groups: dict[str, list[tuple[Artifact, tuple[Problem, ...]]]] = {}
        for artifact in cache.op(op).artifacts:
            variant = (op, str(artifact.target), canonical(config_json(artifact.config)))
            if artifact.kind == "object" and variant in requested and not obstacle(artifact):
                meaning = canonical([config_json(_meaning(artifact.config, keys)), str(artifact.target)]).decode()
                groups.setdefault(meaning, []).append((artifact, requested[variant]))
        result += [_contest(cache, op, keys, groups[name], cut) for name in sorted(groups)]
    return result


def matrices_of(entry: Entry, cache: Cache) -> Iterator[Matrix]:
    """The matrix of an entry for each of its ops in the cache.

    ``supports`` is not called: unsupported rows are not in the cache.
    """
    for op in _ops(entry, cache):
        yield matrix_of(entry, _description(op, entry, cache.op(op)))


def _asked(cache: Cache, manifests: Iterable[Manifest]) -> dict[tuple[str, str, bytes], tuple[Problem, ...]]:
    """Every variant that the manifests list, with the problems of its entry."""
    problems: dict[tuple[str, str, bytes], tuple[Problem, ...]] = {}
    for entry in (entry for manifest in manifests for entry in manifest.entries if entry.program is None):
        for matrix in matrices_of(entry, cache):
            for row, target in product(matrix.rows(), entry.targets):
                variant = (matrix.op, str(target), canonical(config_json(row.config)))
                problems[variant] = (*problems.get(variant, ()), *entry.problems)
    return problems


def _ops(entry: Entry, cache: Cache) -> list[str]:
    """The ops of an entry in the cache: the one that it names, or those that were built from its function."""
    if entry.op is not None:
        return [entry.op] if entry.op in cache.index.ops else []
    return [
        op
        for op in sorted(cache.index.ops)
        if any(a.provenance.get("function") == entry.source for a in cache.op(op).artifacts)
    ]


def _description(op: str, entry: Entry, listed: OpReader) -> Description:
    """A kernel as the cache describes it, with the tuned keys of the build."""
    return Description(op=op, source=entry.source or "", keys=listed.keys, declared=True)


def _meaning(config: Config, keys: Sequence[Key]) -> dict[str, Any]:
    tuned = {key.name for key in keys if key.tuned}
    return {name: value for name, value in config.items() if name not in tuned}


def _contest(
    cache: Cache, op: str, keys: Sequence[Key], members: list[tuple[Artifact, tuple[Problem, ...]]], cut: Cut
) -> Contest:
    ordered = sorted(members, key=lambda member: (member[0].rank, member[0].key))
    problems: dict[Sizes, Problem] = {sizes_of(p): p for _, given in ordered for p in given}
    first = ordered[0][0]
    meaning = _meaning(first.config, keys)
    contestants = (
        Contestant(
            key=artifact.key,
            tuned={name: value for name, value in artifact.config.items() if name not in meaning},
            code=code_digest(cache.read(artifact.blob)),
            rank=artifact.rank,
            stored=artifact.blob.stored,
            tiling=cut(op, artifact),
        )
        for artifact, _ in ordered
    )
    unique = {artifact.identity: artifact for artifact in contestants}
    return Contest(
        op=op,
        config=meaning,
        target=first.target,
        contestants=tuple(unique.values()),
        problems=tuple(problems.values()),
    )


def with_problems(contest: Contest, problems: Sequence[Problem]) -> Contest:
    """A contest with other problems."""
    return replace(contest, problems=tuple({sizes_of(problem): problem for problem in problems}.values()))
