"""Reproducing: builds the variants of a cache again from its manifests, without a store, and compares the bytes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from precast.build.cache.build_assumptions import asked_by
from precast.build.cache.contents import ArtifactId, CacheContents, artifact_ids
from precast.build.cache.merge import differing_facts
from precast.build.cache.pack import BuiltArtifact, built_artifacts
from precast.build.compile.assemble import assemble
from precast.build.compile.executor import Executor
from precast.build.compile.outcome import Failed
from precast.build.compile.parcel import differences
from precast.build.errors import StoreError
from precast.build.inputs.sources import SourceDigests
from precast.build.link.linker import Linker
from precast.build.link.runtime import RuntimeLibrary, link_runtime
from precast.build.link.toolchain import PROGRAMS, Toolchain, by_host, find_toolchain
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.build.store.history import made_of
from precast.build.store.key import key_parts, variant_key
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.index import digest
from precast.loader.errors import PrecastError
from precast.measure.comparison.diff import provenance_changes
from precast.measure.comparison.key_parts import KeyParts, key_changes

_SHOWN = 5  # changes of an artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The result. ``same`` artifacts have the same bytes, ``different`` has a reason for each other one, and
    ``unasked`` ones are in no manifest. ``elsewhere`` counts those of other hosts, which only such a host can build;
    ``left_out`` counts variants that are not in the sample."""

    same: tuple[ArtifactId, ...]
    different: Mapping[str, str]
    unasked: tuple[ArtifactId, ...]
    elsewhere: int
    left_out: int

    @property
    def holds(self) -> bool:
        return not self.different and not self.unasked

    def to_json(self) -> dict[str, Any]:
        """As ``precast reproduce --json`` prints it."""
        return {
            "holds": self.holds,
            "same": [name.to_json() for name in self.same],
            "different": dict(self.different),
            "unasked": [name.to_json() for name in self.unasked],
            "elsewhere": self.elsewhere,
            "left_out": self.left_out,
        }


def reproduce(
    plan: Plan,
    path: Path,
    *,
    executor: Executor,
    sample: int | None = None,
    seed: str = "",
    seconds: float = 600.0,
    parts: KeyParts | None = None,
    show: Callable[[Variant], None] = lambda variant: None,
) -> Reproduction:
    """Build the variants that a plan and the cache at a path have in common again, without a store.

    A ``sample`` of so many variants is drawn with ``seed``, by default the cache's digest: the same cache gives the
    same sample, and a changed cache another one. ``parts`` names what differs in a key, where the bytes are the same.
    """
    cache, toolchain, sources = (
        CacheContents.open(path),
        find_toolchain(),
        SourceDigests(plan.search),
    )
    runtime = link_runtime(toolchain)
    host = runtime.host.arch
    _check_toolchain(cache, toolchain, host)
    held = {name: artifact for name, artifact in cache.artifacts.items() if name.host in ("", host)}
    variants = _variants_of(plan, held, host)
    common = {v.identity_on_gpu: v for v in variants.values()}
    chosen = draw(list(common.values()), sample, seed or cache.cache.digest)
    drawn = {v.identity_on_gpu for v in chosen}
    expected: dict[str, dict[ArtifactId, Artifact]] = {name: {} for name in drawn}
    for name, variant in variants.items():
        if variant.identity_on_gpu in drawn:
            expected[variant.identity_on_gpu][name] = held[name]
    different = _runtime(cache, runtime)
    same: list[ArtifactId] = []
    linker = Linker(toolchain, runtime)
    # In another order than a build: the order of compilation must not matter.
    for outcome in executor.compile(plan, chosen[::-1], seconds=seconds):
        show(outcome.variant)
        if isinstance(outcome, Failed):
            different[str(outcome.variant)] = f"it does not compile: {outcome.reason}"
            continue
        try:
            record = assemble(
                outcome,
                variant_key(outcome.variant, toolchain, sources.digest(outcome.variant.source)),
                linker,
                toolchain,
            )
        except PrecastError as error:
            different[str(outcome.variant)] = f"it cannot be assembled: {error}"
            continue
        built = built_artifacts(outcome.variant, record, plan.profiles)
        now = key_parts(outcome.variant, toolchain, sources.digest(outcome.variant.source))
        why = _key_difference(parts, made_of(now, record))
        good, bad = _compare(cache, expected[outcome.variant.identity_on_gpu], built, why)
        same += good
        different.update(bad)
    return Reproduction(
        same=tuple(sorted(same, key=str)),
        different=different,
        unasked=tuple(sorted(held.keys() - variants.keys(), key=str)),
        elsewhere=len(cache.artifacts) - len(held),
        left_out=len(common) - len(chosen),
    )


def _variants_of(plan: Plan, held: Mapping[ArtifactId, Artifact], host: str) -> dict[ArtifactId, Variant]:
    """The variant of each artifact: of those for several GPUs, one whose GPU it was built for."""
    by_artifact: dict[ArtifactId, list[Variant]] = {}
    for variant in plan.variants:
        for whole in artifact_ids(variant, (host,)):
            by_artifact.setdefault(whole, []).append(variant)
    variants_of = {}
    for name, artifact in held.items():
        variants = by_artifact.get(name.whole, [])
        answers = asked_by(artifact)
        fitting = [v for v in variants if plan.profiles.of(v.target, v.profile).gives(answers)]
        if len(variants) == 1 or fitting:  # a single one is always built, to report what differs
            variants_of[name] = (fitting or variants)[0]
    return variants_of


def draw(variants: Sequence[Variant], sample: int | None, seed: str) -> list[Variant]:
    """A sample of the variants that depends only on the seed; all of them without a number."""
    ordered = sorted(variants, key=lambda v: v.identity_on_gpu)
    return ordered if sample is None or sample >= len(ordered) else random.Random(seed).sample(ordered, sample)


def _check_toolchain(cache: CacheContents, toolchain: Toolchain, host: str) -> None:
    versions_by_host = by_host(cache.index)
    versions = versions_by_host.get(host, versions_by_host.get(""))
    if versions is None:
        hosts = ", ".join(r.host.arch for r in cache.index.runtimes) or "no host"
        raise StoreError(f"{cache} is for {hosts}, and this machine is {host}: run this on a machine of that kind")
    here = {tool: version for tool, version in toolchain.versions.items() if tool in versions or tool not in PROGRAMS}
    differing = differences(here, versions)
    if differing:
        lines = "\n".join(f"  {line}" for line in differing)
        raise StoreError(
            f"{cache} was built with other versions than the installed ones, which give other bytes:\n{lines}\n"
            "Install the versions that built it, and run this again."
        )


def _runtime(cache: CacheContents, runtime: RuntimeLibrary) -> dict[str, str]:
    """The difference of this host's runtime library, if there is one. A cache of device code has no such library."""
    held = next((r for r in cache.index.runtimes if r.host.arch == runtime.host.arch), None)
    if held is None or (held.soname, cache.read(held.blob)) == (runtime.soname, runtime.code):
        return {}
    digests = (held.blob.sha256[:12], digest(runtime.code)[:12])
    return {f"the runtime library for {held.host.arch}": " is now ".join(digests)}


def _compare(
    cache: CacheContents,
    expected: Mapping[ArtifactId, Artifact],
    built: Iterable[BuiltArtifact],
    why: Callable[[str, Artifact], str],
) -> tuple[list[ArtifactId], dict[str, str]]:
    """The artifacts of one variant with the same bytes, and the differences of the others."""
    same: list[ArtifactId] = []
    different: dict[str, str] = {}
    remaining = dict(expected)
    parts: Counter[ArtifactId] = Counter()
    for artifact in built:
        whole = ArtifactId.of(artifact.op, artifact.artifact)
        name = replace(whole, part=parts[whole])
        parts[whole] += 1
        held = remaining.pop(name, None)
        if held is None:
            different[str(name)] = "it is not in the cache"
            continue
        facts = [fact for fact in differing_facts(held, artifact.artifact) if fact not in ("evidence", "ptx")]
        if "bytes" not in facts and cache.read(held.blob) != artifact.content:
            facts.append("bytes")
        if not name.host and facts == ["key"]:
            facts = []  # device code that was built on another host
        if facts:
            changes = "".join(f"; {change}" for change in provenance_changes(held, artifact.artifact)[:_SHOWN])
            if "key" in facts and not changes:
                changes = why(artifact.op, held)
            different[str(name)] = f"{', '.join(facts)}: {_first_difference(held, artifact.content, cache)}{changes}"
        else:
            same.append(name)
    different.update({str(name): "it was not built again" for name in remaining})
    return same, different


def _key_difference(parts: KeyParts | None, now: Mapping[str, str]) -> Callable[[str, Artifact], str]:
    """What differs between an artifact's key and that of the variant now, as text; empty where it is not known."""

    def why(op: str, held: Artifact) -> str:
        then = parts.of(held.key, op, held.kind) if parts else None
        changes = "; ".join(map(str, key_changes(then, now)))
        return f"; in the key: {changes}" if changes else ""

    return why


def _first_difference(held: Artifact, content: bytes, cache: CacheContents) -> str:
    was = cache.read(held.blob)
    if was == content:
        return "the bytes are the same"
    at = next((i for i, (a, b) in enumerate(zip(was, content, strict=False)) if a != b), min(len(was), len(content)))
    return f"{len(was)} bytes before, {len(content)} now; the first difference is at byte {at}"
