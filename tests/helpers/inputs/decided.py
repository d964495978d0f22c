"""What a build and what ``check`` decide about a variant of an observed project, from a store and a cache of it."""

from __future__ import annotations

import functools
from dataclasses import replace

from precast.build.cache.contents import CacheContents
from precast.build.cache.freshness import INPUTS, Decisions, stale
from precast.build.gpu.profile import profile_of
from precast.build.inputs.inputs import Inputs, shortened
from precast.build.link.toolchain import find_toolchain
from precast.build.store.key import artifact_key, record_key
from precast.build.store.lookup import Lookup
from precast.build.store.record import Record
from precast.build.store.store import Store
from precast.loader.contract.format.artifact import Artifact
from tests.helpers.inputs.observed_project import ObservedProject
from tests.helpers.packed_caches import Built, scale_plan

_toolchain = functools.cache(find_toolchain)
KEY = "0" * 64


class Decided:
    """A project of which one variant was built with these inputs: its record is in a store, its artifact in a cache."""

    def __init__(self, project: ObservedProject, inputs: Inputs) -> None:
        self._project, self._plan = project, scale_plan("bfloat16")
        mine, installed = inputs.split("kernel")
        record = Record(
            key=record_key(KEY, {}, mine.answers), products=(), seconds=1.0, inputs=mine, installed=installed
        )
        read = {name: shortened(answer) for name, answer in mine.answers.items()}

        def made(artifact: Artifact) -> Artifact:
            key = artifact_key(record.key, "scale", artifact.kind)
            return replace(artifact, key=key, provenance={INPUTS: {"digest": mine.digest, "read": read}})

        self._store = Store(project.folder / "store")
        self._store.put(KEY, record)
        self._cache = CacheContents.open(Built(dtypes=("bfloat16",), change=made).write(project.folder / "cache"))

    def by_build(self) -> bool:
        """Whether a build would compile it again."""
        (variant,) = self._plan.variants
        return self._lookup().find(KEY, profile_of(variant.target)) is None

    def by_check(self) -> bool:
        """Whether ``check`` reports it as stale."""
        lookup = self._lookup()
        keys = {variant.identity_on_gpu: KEY for variant in self._plan.variants}
        return bool(stale(self._plan, self._cache, lookup.answers, Decisions(self._plan, lookup, _toolchain(), keys)))

    def _lookup(self) -> Lookup:
        return Lookup(self._store, self._project.answers())
