"""Freshness: whether a build would make the same artifacts as a cache has, judged by their inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from precast.build.cache.contents import ArtifactId, CacheContents, artifact_ids
from precast.build.cache.decisions import Decisions
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.inputs import is_name, shortened
from precast.build.plan.plan import Plan
from precast.loader.contract.format.artifact import Artifact

INPUTS = "inputs"
"""The field of the provenance with the inputs that an author may edit: a digest of all, and each by name."""


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
    requested = {i.whole: v for v in plan.variants for i in artifact_ids(v, cache.hosts or ("",))}
    changed = {}
    for identity, artifact in cache.artifacts.items():
        if (variant := requested.get(identity.whole)) is None:
            continue
        changes = _changed(artifact, answers)
        if decisions is not None:
            read = tuple(read_by_author(artifact))
            changes = chain(changes, decisions.changes(variant, identity, artifact, cache, read))
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
