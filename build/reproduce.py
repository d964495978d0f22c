"""Reproducing: what a cache holds is built again from its manifests, from nothing, and compared byte for byte."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.build.assemble import assemble
from precast.build.cache.contents import ArtifactId, CacheContents, read_contents
from precast.build.cache.merge import differing
from precast.build.cache.pack import drafts_of
from precast.build.compile.executor import Executor
from precast.build.compile.outcome import Failed
from precast.build.compile.parcel import differences
from precast.build.errors import StoreError
from precast.build.inputs.sources import SourceDigests
from precast.build.link.linker import Linker
from precast.build.link.runtime import RuntimeLibrary, link_runtime
from precast.build.link.toolchain import Toolchain, by_host, find_toolchain
from precast.build.plan.plan import Plan, Variant
from precast.build.store.key import variant_key
from precast.loader.errors import PrecastError
from precast.loader.format.artifact import Artifact
from precast.loader.format.config import canonical, to_json
from precast.loader.format.index import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What came of it. ``same`` artifacts came out again; ``different`` ones did not, and say how; ``unasked`` ones no
    manifest asks for; ``elsewhere`` are those of other hosts, which only such a host can build again."""

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
    show: Callable[[Variant], None] = lambda variant: None,
) -> Proof:
    """Build again what a plan and the cache at a path have in common; nothing is taken from any store.

    A ``sample`` of so many variants is drawn by ``seed``, or by the cache's own digest: the same cache gives the same
    sample, and a changed one another.
    """
    cache, toolchain, sources = read_contents(path), find_toolchain(), SourceDigests(plan.search)
    runtime = link_runtime(toolchain)
    host = runtime.host.arch
    _check_toolchain(cache, toolchain, host)
    held = {name: artifact for name, artifact in cache.artifacts.items() if name.host in ("", host)}
    asked = {named: variant for variant in plan.variants for named in _names(variant, host)}
    common = {v.identity: v for name in held if (v := asked.get(_whole(name))) is not None}
    chosen = draw(list(common.values()), sample, seed or digest(cache.index.encode()))
    expected = {name: a for name, a in held.items() if (v := asked.get(_whole(name))) is not None and v in chosen}
    different = _runtime(cache, runtime)
    same: list[ArtifactId] = []
    with Linker(toolchain, runtime) as linker:
        for outcome in executor.compile(plan, chosen, seconds=seconds):
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
            mine = list(drafts_of(outcome.variant, record, plan.profiles.of(outcome.variant.target)))
            good, bad = _compare(cache, expected, outcome.variant, mine, host)
            same += good
            different.update(bad)
    return Proof(
        same=tuple(sorted(same, key=str)),
        different=different,
        unasked=tuple(sorted((n for n in held if _whole(n) not in asked), key=str)),
        elsewhere=len(cache.artifacts) - len(held),
        left_out=len(common) - len(chosen),
    )


def draw(variants: Sequence[Variant], sample: int | None, seed: str) -> list[Variant]:
    """Some of the variants, always the same for one seed; all of them where no number is given."""
    ordered = sorted(variants, key=lambda v: v.identity)
    return ordered if sample is None or sample >= len(ordered) else random.Random(seed).sample(ordered, sample)


def _names(variant: Variant, host: str) -> list[ArtifactId]:
    config = canonical({name: to_json(value) for name, value in variant.config.items()}).decode()
    return [
        ArtifactId(op, config, str(variant.target), kind, host if kind == "object" else "")
        for op in variant.produces
        for kind in variant.emit
    ]


def _whole(name: ArtifactId) -> ArtifactId:
    return ArtifactId(name.op, name.config, name.target, name.kind, name.host)


def _check_toolchain(cache: CacheContents, toolchain: Toolchain, host: str) -> None:
    made = by_host(cache.index).get(host)
    if made is None:
        hosts = ", ".join(r.host.arch for r in cache.index.runtimes) or "no host"
        raise StoreError(f"{cache} is for {hosts}, and this machine is {host}: run this on such a machine")
    found = differences(toolchain.versions, made)
    if found:
        lines = "\n".join(f"  {line}" for line in found)
        raise StoreError(
            f"{cache} was made by other versions than those here, which would give other bytes:\n{lines}\n"
            "Install the versions that made it, and run this again."
        )


def _runtime(cache: CacheContents, runtime: RuntimeLibrary) -> dict[str, str]:
    """What of the host's own libraries did not come out again."""
    held = next(r for r in cache.index.runtimes if r.host.arch == runtime.host.arch)
    made = (runtime.code, *([runtime.fastcall] if runtime.fastcall else []))
    kept = tuple(cache.cache.read(blob) for blob in held.blobs)
    if (held.soname, kept) == (runtime.soname, made):
        return {}
    digests = (" and ".join(digest(code)[:12] for code in codes) for codes in (kept, made))
    return {f"the runtime library for {held.host.arch}": " is now ".join(digests)}


def _compare(
    cache: CacheContents,
    expected: Mapping[ArtifactId, Artifact],
    variant: Variant,
    made: Sequence[tuple[str, Artifact, bytes]],
    host: str,
) -> tuple[list[ArtifactId], dict[str, str]]:
    """The artifacts of one variant that came out again, and those that did not, with what differs."""
    good: list[ArtifactId] = []
    bad: dict[str, str] = {}
    names = set(_names(variant, host))
    left = {name: artifact for name, artifact in expected.items() if _whole(name) in names}
    seen: dict[ArtifactId, int] = {}
    for op, artifact, content in made:
        whole = next(n for n in names if (n.op, n.kind) == (op, artifact.kind))
        part = seen[whole] = seen.get(whole, -1) + 1
        name = ArtifactId(whole.op, whole.config, whole.target, whole.kind, whole.host, part)
        held = left.pop(name, None)
        if held is None:
            bad[str(name)] = "it is not in the cache"
            continue
        facts = [fact for fact in differing(held, artifact) if fact != "evidence"]
        if "bytes" not in facts and cache.cache.read(held.blob) != content:
            facts.append("bytes")
        if not name.host and facts == ["key"]:
            facts = []  # device code that was built on another host
        if facts:
            bad[str(name)] = f"{', '.join(facts)}: {_first(held, content, cache)}"
        else:
            good.append(name)
    bad.update({str(name): "it did not come out again" for name in left})
    return good, bad


def _first(held: Artifact, content: bytes, cache: CacheContents) -> str:
    was = cache.cache.read(held.blob)
    if was == content:
        return "the bytes are the same"
    at = next((i for i, (a, b) in enumerate(zip(was, content, strict=False)) if a != b), min(len(was), len(content)))
    return f"{len(was)} bytes were, {len(content)} are, from byte {at} on"
