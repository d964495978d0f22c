"""Freshness: whether a build would make the same artifacts as a cache has, judged by their inputs.

The function by which a build decides to reuse a record decides here, too.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from precast.build.cache.build_assumptions import asked_by
from precast.build.cache.contents import ArtifactId, CacheContents, artifact_ids
from precast.build.gpu.profile import Profile
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.inputs import is_name, shortened
from precast.build.inputs.sources import SourceDigests
from precast.build.link.toolchain import Toolchain, find_toolchain
from precast.build.link.versions import DSL, VARIABLE
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.build.store.key import artifact_key, record_key, variant_key
from precast.build.store.lookup import Lookup
from precast.loader.contract.format.artifact import Artifact

INPUTS = "inputs"
"""The field of the provenance with the inputs that an author may edit: a digest of all, and each by name."""
CLOSED = "closed"
"""The field of the provenance that says by what everything but the inputs was kept away from the compilation."""
_TOOLS = (DSL, "apache-tvm-ffi", "ld")


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of a build of a plan at this moment. ``lookup`` has the user's store, which may be empty.

    The inputs that an author may edit are in an artifact's provenance. Installed packages are only in the store's
    record, if this machine has it.
    """

    plan: Plan
    lookup: Lookup
    toolchain: Toolchain
    keys: Mapping[str, str]

    @classmethod
    def of(cls, plan: Plan, lookup: Lookup) -> Decisions:
        """The decisions of a build of this plan with this store."""
        toolchain = find_toolchain()
        sources = SourceDigests(plan.search, lookup.store.notes)
        keys = {v.identity_on_gpu: variant_key(v, toolchain, sources.digest(v.source)) for v in plan.variants}
        return cls(plan, lookup, toolchain, keys)

    def changes(
        self, variants: Iterable[Variant], identity: ArtifactId, artifact: Artifact, cache: CacheContents
    ) -> Iterator[str]:
        """What has changed since an artifact was built for one of these variants, one for each GPU, so that a build
        would make it again."""
        facts = asked_by(artifact)
        hosts = {artifact.host.arch} if artifact.host else {*cache.hosts}
        variant = next((v for v in variants if self._profile(v).gives(facts)), None)
        if not hosts <= {platform.machine()} or variant is None:
            return  # another machine builds it, or it is for another GPU
        profile = self._profile(variant)
        key = self.keys[variant.identity_on_gpu]
        reused = self.lookup.record_key(key, profile)
        if reused is not None and self._is_made_from(reused, identity, artifact):
            return
        own = {name: answer for name, answer in facts.items() if name not in variant.assumed}
        answers = self.lookup.answers.answers(read_by_author(artifact))
        for requested in (facts, own):
            name = record_key(key, requested, answers)
            if self._is_made_from(name, identity, artifact):
                yield from self._installed(name)
                return
        tools = list(differing_tools(cache.index.toolchain, self.toolchain.versions))
        yield from tools
        if not tools:
            yield "its code"

    def _profile(self, variant: Variant) -> Profile:
        return self.plan.profiles.of(variant.target, variant.profile)

    def _is_made_from(self, record: str, identity: ArtifactId, artifact: Artifact) -> bool:
        return artifact_key(record, identity.op, identity.kind) == artifact.key

    def _installed(self, record: str) -> Iterator[str]:
        """The installed packages that have changed since the record of the store was made."""
        if not self.lookup.store.record_file(record).is_file():
            return
        if (stored := self.lookup.store.read(record)) is not None:
            yield from stored.installed.changed(self.lookup.answers.answers(stored.installed.names))


def differing_tools(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """The tools of a cache that are others here, with what to do where a variable chooses among installed ones.

    >>> list(differing_tools({"cuda": "13.4"}, {"cuda": "12.9"}))
    ['CUDA, now 12.9, in the cache 13.4 (PRECAST_CUDA=13 builds and checks for that),']
    """
    yield from (f"{tool}, now {now[tool]}," for tool in _TOOLS if then.get(tool) != now.get(tool))
    cuda, here = then.get("cuda"), now.get("cuda")
    if cuda and here and cuda != here:
        major = cuda.partition(".")[0]
        yield f"CUDA, now {here}, in the cache {cuda} ({VARIABLE}={major} builds and checks for that),"


def read_by_author(artifact: Artifact) -> dict[str, str]:
    """The inputs of an artifact that its author may edit, by name, with shortened values; none without such a field."""
    noted = artifact.provenance.get(INPUTS)
    read = noted.get("read") if isinstance(noted, Mapping) else None
    if not isinstance(read, Mapping):
        return {}
    return {n: a for n, a in read.items() if isinstance(n, str) and isinstance(a, str) and is_name(n)}


def stale(
    plan: Plan, cache: CacheContents, answers: InputAnswers, decisions: Decisions | None = None
) -> dict[ArtifactId, str]:
    """The artifacts of a plan of which an input has changed, with the name of the input.

    Artifacts of other hosts are compared as well: their sources are the same. With ``decisions``, everything counts by
    which a build decides.
    """
    requested: dict[ArtifactId, list[Variant]] = {}
    for variant in plan.variants:
        for whole in artifact_ids(variant, cache.hosts or ("",)):
            requested.setdefault(whole, []).append(variant)
    changed = {}
    for identity, artifact in cache.artifacts.items():
        if not (variants := requested.get(identity.whole)):
            continue
        changes = _changed(artifact, answers)
        if decisions is not None:
            changes = chain(changes, decisions.changes(variants, identity, artifact, cache))
        if (name := next(changes, None)) is not None:
            changed[identity] = name
    return changed


def _changed(artifact: Artifact, answers: InputAnswers) -> Iterator[str]:
    for name, then in sorted(read_by_author(artifact).items()):
        if shortened(answers.answer(name)) != then:
            yield name


def differently_made(caches: Sequence[CacheContents]) -> Iterator[str]:
    """A line for each input of a function that differs between two caches."""
    seen: dict[tuple[str, str, str], tuple[str, CacheContents]] = {}
    reported = set()
    for cache in caches:
        for identity, artifact in cache.artifacts.items():
            function = str(artifact.provenance.get("function"))
            for name, answer in read_by_author(artifact).items():
                held, other = seen.setdefault((identity.op, function, name), (answer, cache))
                if held != answer and (name, function) not in reported:
                    reported.add((name, function))
                    yield f"{function} was compiled from different states of {name} in {other} and {cache}"
