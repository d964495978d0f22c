"""Keys that a program requests, and that no recording and no cache has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from precast.attach.builder.recorded_manifest import read_recorded_manifest
from precast.attach.fact_check import FactCheck
from precast.attach.library import library_named
from precast.attach.recordings.kernel_facts import KernelFacts, parse_facts
from precast.attach.recordings.provenance import FACTS
from precast.attach.recordings.recording import Recorded
from precast.build.cache.contents import CacheContents
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Config, to_value
from precast.loader.contract.format.target import Target
from precast.loader.resolve.candidate import same

Held = tuple[str, Config]


def kernels_of(path: Path, target: Target) -> Iterator[Held]:
    """The ops and configs that a cache, or a manifest that ``precast record`` wrote, has for a target; of a cache those
    alone whose sources are the installed ones, since others are not served."""
    if path.is_dir():
        check = FactCheck()
        for identity, artifact in CacheContents.open(path).artifacts.items():
            if artifact.target.runs_on(target.capability) and not _differs(artifact, check):
                yield identity.op, artifact.config
        return
    manifest = read_recorded_manifest(path)
    if any(Target.parse(listed).runs_on(target.capability) for listed in manifest.targets):
        yield from map(held_as, manifest.recorded)


def _differs(artifact: Artifact, check: FactCheck) -> str | None:
    """How the sources of a kernel differ here. Variables are those of the server, which this process does not know."""
    facts = parse_facts(artifact.provenance.get(FACTS))
    if facts is None:
        return None
    return check.difference(
        KernelFacts(variables={}, packages=facts.packages, modules=facts.modules, files=facts.files)
    )


def held_as(kernel: Recorded) -> Held:
    """The op and the config that a cache has for a recorded key."""
    config = {name: to_value(value) for name, value in kernel.config.items()}
    return library_named(kernel.library).op(kernel.compile), config


def missing_of(recorded: Sequence[Recorded], held: Sequence[Held]) -> list[Recorded]:
    """The keys that are not held; what is held may have more in its config, such as the compiler's version.

    >>> one, other = (Recorded(library="quack", compile="quack.m:f", config={"N": n}) for n in (1, 2))
    >>> op, config = held_as(one)
    >>> missing_of([one, other], [(op, {**config, "compiler": "4.8.0"})]) == [other]
    True
    """

    def holds(kernel: Recorded) -> bool:
        op, config = held_as(kernel)
        return any(op == other and all(same(has.get(n), config[n]) for n in config) for other, has in held)

    return [kernel for kernel in recorded if not holds(kernel)]
