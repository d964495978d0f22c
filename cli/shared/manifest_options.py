"""The options with which commands read manifests, and the plan that they give."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from precast.cli.shared.output import count
from precast.cli.shared.progress import waiting

if TYPE_CHECKING:
    from precast.build.disk.memo import Memo
    from precast.build.gpu.profile import Profiles
    from precast.build.plan.plan import Plan

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

    def plan(self, profiles: Profiles | None = None, notes: Memo | None = None) -> Plan:
        """The plan of the manifests; a terminal shows what takes so long."""
        with waiting(reading(len(self.manifests))):
            return self.read(profiles, notes)

    def read(self, profiles: Profiles | None = None, notes: Memo | None = None) -> Plan:
        """The plan of the manifests. A kernel that ``notes`` describe is not imported."""
        from precast.build.ipc.environment import passed_variables
        from precast.build.plan.planner import plan_of_files

        for kind in self.emit or ():
            if kind not in _KINDS:
                raise typer.BadParameter(f"--emit {kind}: write {' or '.join(_KINDS)}")
        return plan_of_files(
            self.manifests,
            targets=self.target or (),
            name=self.name,
            profiles=profiles,
            notes=notes,
            passed=passed_variables(self.pass_env or (), os.environ),
            emit=tuple(self.emit or ()),
            retarget=self.retarget or (),
        )


def reading(manifests: int) -> str:
    """What a plan does first.

    >>> reading(1), reading(2)
    ('reading 1 manifest and importing its kernels', 'reading 2 manifests and importing their kernels')
    """
    return f"reading {count(manifests, 'manifest')} and importing {'its' if manifests == 1 else 'their'} kernels"
