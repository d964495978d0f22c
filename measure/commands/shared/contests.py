"""The contests that ``precast tune`` measures, models or prunes, and the tuning file with their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared.output import check_output_file, count, print_message

if TYPE_CHECKING:
    from precast.build.plan.manifest import Manifest
    from precast.kernels.authoring.declare import Problem
    from precast.loader.contract.format.artifact import Artifact
    from precast.loader.resolve.cache import Cache
    from precast.measure.tuning.contest import Contest, Cut, Obstacle

CacheOption = Annotated[
    Path, typer.Option("--cache", help="The cache, which was built from the manifests.", metavar="CACHE")
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The tuning file; by default the one in the manifests.", metavar="FILE"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Manifests, the cache that was built from them, and which contests between its variants to take."""

    cache: Cache
    manifests: Sequence[Manifest]
    ops: Sequence[str]
    where: Sequence[str]

    @classmethod
    def read(
        cls, manifests: Sequence[Path], cache: Path, op: Sequence[str] | None, where: Sequence[str] | None
    ) -> Selection:
        """The files that a command names, and its options ``--op`` and ``--where``."""
        from precast.build.plan.manifest import read_manifest
        from precast.loader.resolve.cache import Cache

        read = [read_manifest(path) for path in manifests]
        return cls(cache=Cache(cache), manifests=read, ops=op or (), where=where or ())

    def contests(self, obstacle: Obstacle, cut: Cut = lambda op, artifact: None) -> list[Contest]:
        """The contests that have several candidates."""
        from precast.cli.shared.artifacts import artifacts_where
        from precast.measure.launching.cases import launchable, ops_of
        from precast.measure.tuning.contest import contests

        launched = launchable(self.cache, ops_of(self.cache, self.ops))
        keys = {artifact.key for _, artifact in artifacts_where(self.cache, launched, self.where)}

        def excluded(artifact: Artifact) -> str:
            return obstacle(artifact) if artifact.key in keys else "not selected"

        every = contests(self.cache, self.manifests, excluded, cut)
        return [contest for contest in every if len(contest.contestants) > 1]

    def tuning_file(self, option: str, path: Path | None) -> Path:
        """The file that an option names, or else the only one that the manifests name."""
        named = sorted({file.path for manifest in self.manifests for file in manifest.tuning})
        if path is None and len(named) != 1:
            raise typer.BadParameter(
                f"the manifests list {count(len(named), 'file')} under 'tuning': name one with {option}"
            )
        path = path or named[0]
        check_output_file(option, path)
        return path

    def with_problems(self, contests: Sequence[Contest], problems: Sequence[Problem]) -> list[Contest]:
        """Contests with these problems; without any, with their manifests', else with those that their kernel declares.

        A contest whose kernel does not have one of the sizes is reported and skipped.
        """
        from precast.loader.errors import PrecastError
        from precast.measure.tuning.contest import with_problems

        ready = []
        for contest in contests:
            try:
                ready.append(with_problems(contest, _problems(self.cache, contest, problems or contest.problems)))
            except PrecastError as error:
                print_message(f"left out: {contest}: {error}")
        return ready


def _problems(cache: Cache, contest: Contest, problems: Sequence[Problem]) -> Sequence[Problem]:
    from precast.loader.contract.format.config import suggest
    from precast.loader.errors import ConfigError
    from precast.measure.launching.cases import declaration_for
    from precast.measure.timing.bench import benched

    key = contest.contestants[0].key
    artifact = next(artifact for artifact in cache.op(contest.op).artifacts if artifact.key == key)
    declaration = declaration_for(contest.op, artifact)
    if declaration.problems is None and problems:
        return problems
    declared = benched(declaration, artifact.config)
    names = sorted({name for problem in declared for name in problem})
    for name in (name for problem in problems for name in problem):
        if name not in names:
            raise ConfigError(f"its problems have no size {name!r}{suggest(name, names)}")
    return problems or declared
