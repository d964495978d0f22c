"""The options with which commands read manifests, and the plans that they give."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from precast.cli.shared.output import count, print_message
from precast.cli.shared.progress import waiting

if TYPE_CHECKING:
    from precast.build.gpu.profile import Profiles
    from precast.build.plan.plan import Plan
    from precast.build.toolchains.plans import Group, Toolchains

_KINDS = ("object", "cubin")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """Manifests, and the options for reading them, as given on the command line."""

    manifests: Sequence[Path]
    target: Sequence[str] | None = None
    name: str = ""
    retarget: Sequence[str] | None = None
    pass_env: Sequence[str] | None = None
    emit: Sequence[str] | None = None
    find_links: Sequence[Path] | None = None
    offline: bool = False
    hermetic: bool = False

    def groups(self) -> tuple[Group, ...]:
        """The manifests of each toolchain; no kernel is imported yet."""
        from precast.build.ipc.environment import HERMETIC, passed_variables
        from precast.build.toolchains.plans import groups_of_files

        for kind in self.emit or ():
            if kind not in _KINDS:
                raise typer.BadParameter(f"--emit {kind}: write {' or '.join(_KINDS)}")
        return groups_of_files(
            self.manifests,
            targets=self.target or (),
            name=self.name,
            passed=passed_variables(self.pass_env or (), os.environ) | ({HERMETIC: "1"} if self.hermetic else {}),
            emit=tuple(self.emit or ()),
            retarget=self.retarget or (),
        )

    def toolchains(self, report: Callable[[str], None]) -> Toolchains:
        """The toolchains of this user; ``report`` gets a line when creating one takes long."""
        return toolchains_of(self.find_links, self.offline, report)

    def plans(self, profiles: Profiles | None = None) -> tuple[Plan, ...]:
        """The plan of the manifests of each toolchain."""
        groups = self.groups()
        toolchains = self.toolchains(print_message)
        with waiting(reading(len(self.manifests))):
            return tuple(group.plan(toolchains, profiles=profiles) for group in groups)


def reading(manifests: int) -> str:
    """What a plan does first.

    >>> reading(1), reading(2)
    ('reading 1 manifest and importing its kernels', 'reading 2 manifests and importing their kernels')
    """
    return f"reading {count(manifests, 'manifest')} and importing {'its' if manifests == 1 else 'their'} kernels"


def toolchains_of(find_links: Sequence[Path] | None, offline: bool, report: Callable[[str], None]) -> Toolchains:
    """The toolchains of this user, with wheels from some folders."""
    from precast.build.toolchains.plans import Toolchains
    from precast.build.toolchains.uv import Sources

    for folder in find_links or ():
        if not folder.is_dir():
            raise typer.BadParameter(f"--find-links: {folder} is not a folder: name one that holds wheels")
    return Toolchains(sources=Sources(find_links=tuple(find_links or ()), offline=offline), say=report)
