"""Coverage: which artifacts of a plan a cache has intact, which it lacks, and which it has in addition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from precast.build.cache.build_assumptions import asked_by
from precast.build.cache.contents import ArtifactId, CacheContents, Verification, artifact_ids
from precast.build.cache.freshness import Decisions, stale
from precast.build.inputs.input_answers import InputAnswers
from precast.build.measurements.fit import Listed, fit
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import canonical
from precast.loader.contract.format.several_objects import count_of
from precast.loader.contract.format.tuning.measured import Measured

_ABSENT = "it is not in the cache"


@dataclass(frozen=True, slots=True)
class Missing:
    """An artifact of a plan that a cache lacks, or that cannot be used."""

    variant: Variant
    artifact: ArtifactId
    reason: str = _ABSENT

    def to_json(self) -> dict[str, Any]:
        """The variant, and which of its artifacts."""
        missing = self.artifact
        more = {"op": missing.op, "kind": missing.kind, "host": missing.host or None, "reason": self.reason}
        return {**self.variant.to_json(), **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """A plan compared with a cache, all bytes of which were read.

    The cache must have a library for every host that it has a runtime library for. ``extra`` has the artifacts that are
    not in the plan.
    """

    present: int
    missing: tuple[Missing, ...]
    extra: tuple[ArtifactId, ...]
    hosts: tuple[str, ...]
    verified: Verification
    unmeasured: Mapping[str, int] = field(default_factory=dict)  # by op: measured times that a build would add
    measured: Mapping[str, int] = field(default_factory=dict)  # by op: measured times that a build would remove

    @property
    def complete(self) -> bool:
        """Whether nothing is missing or damaged."""
        return not self.missing and not self.verified.damaged and not self.unmeasured

    def to_json(self) -> dict[str, Any]:
        """As ``precast check --json`` prints it."""
        return {
            "present": self.present,
            "missing": [m.to_json() for m in self.missing],
            "extra": sorted({" ".join((a.op, a.config, a.target, a.kind)) for a in self.extra}),
            "hosts": list(self.hosts),
            "checked": self.verified.to_json(),
            "damaged": sorted(self.verified.damaged.values()),
            "tuning": {"missing": dict(self.unmeasured), "extra": dict(self.measured)},
        }


def coverage(
    plan: Plan, cache: CacheContents, answers: InputAnswers | None = None, decisions: Decisions | None = None
) -> Coverage:
    """Compare a plan with a cache, and read and check every byte of it.

    With ``answers``, artifacts whose inputs have changed count as missing, too; with ``decisions``, all those that a
    build would make again.
    """
    verified = cache.verify()
    hosts = cache.hosts
    held: dict[ArtifactId, dict[ArtifactId, Artifact]] = {}
    for identity, artifact in cache.artifacts.items():
        held.setdefault(identity.whole, {})[identity] = artifact
    unusable = dict(_unusable_hosts(cache, verified.damaged))
    changed = stale(plan, cache, answers, decisions) if answers is not None else {}
    present: set[tuple[ArtifactId, ...]] = set()  # an artifact may serve several GPUs: it counts once
    missing: list[Missing] = []
    served: set[ArtifactId] = set()
    for variant in plan.variants:
        for whole in artifact_ids(variant, hosts or ("",)):
            mine = _for_its_gpu(held.get(whole, {}), plan, variant)
            served.update(mine)
            old = next((f"it is stale: {changed[name]} has changed" for name in mine if name in changed), "")
            reason = _reason(whole, mine, unusable, verified.damaged) or old
            if reason:
                missing.append(Missing(variant, whole, reason))
            else:
                present.add((whole, *mine))
    lacking, more = _measurements(plan, cache)
    extra = {replace(name.whole, assumed=name.assumed) for name in cache.artifacts.keys() - served}
    return Coverage(
        present=len(present),
        missing=tuple(missing),
        extra=tuple(sorted(extra, key=str)),
        hosts=hosts,
        verified=verified,
        unmeasured=lacking,
        measured=more,
    )


def _measurements(plan: Plan, cache: CacheContents) -> tuple[dict[str, int], dict[str, int]]:
    """The number of measured times that a build would add to the cache, by op; and of those that it would remove. A
    changed time counts as both."""
    fitted = fit(plan.tuning, {op: Listed(listed.keys, listed.artifacts) for op, listed in cache.ops.items()})
    lacking, more = Counter[str](), Counter[str]()
    for op, listed in cache.ops.items():
        expected, held = set(_times(fitted.rows.get(op, ()))), set(_times(listed.tuning))
        lacking[op], more[op] = len(expected - held), len(held - expected)
    return dict(+lacking), dict(+more)


def _times(rows: Iterable[Measured]) -> Iterator[tuple[object, ...]]:
    for row in rows:
        tilings = {key: canonical(tiling.to_json()) for key, tiling in row.tilings.items()}
        yield from ((row.place, key, time, tilings.get(key)) for key, time in row.times.items())


def _for_its_gpu(parts: Mapping[ArtifactId, Artifact], plan: Plan, variant: Variant) -> dict[ArtifactId, Artifact]:
    """The artifacts that were built for the GPU of a variant if one was chosen; all of them otherwise."""
    if not plan.profiles.chosen_for(variant.target):
        return dict(parts)
    gpu = plan.profiles.of(variant.target, variant.profile)
    return {name: artifact for name, artifact in parts.items() if gpu.gives(asked_by(artifact))}


def _unusable_hosts(cache: CacheContents, damaged: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The hosts whose libraries cannot be loaded because their runtime library is damaged."""
    for runtime in cache.index.runtimes:
        if runtime.blob.sha256 in damaged:
            reason = damaged[runtime.blob.sha256]
            yield runtime.host.arch, f"the runtime library of its host cannot be used: {reason}"


def _reason(
    identity: ArtifactId, held: Mapping[ArtifactId, Artifact], unusable: Mapping[str, str], damaged: Mapping[str, str]
) -> str:
    """The reason why an artifact cannot be used; empty if it can be used."""
    parts = list(held.values())
    if not parts:
        return (
            _ABSENT if identity.host or identity.kind != "object" else "the cache has no runtime library for any host"
        )
    objects, expected = len({name.op for name in held}), max(count_of(a.provenance) for a in parts)
    if objects < expected:
        return f"the cache has {objects} of the {expected} objects of this function"
    reasons = [damaged[a.blob.sha256] for a in parts if a.blob.sha256 in damaged]
    return reasons[0] if reasons else unusable.get(identity.host, "")
