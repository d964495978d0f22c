"""Plans of manifests without a toolchain, made as commands make them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from precast.build.disk.memo import Memo
from precast.build.gpu.profile import Profiles
from precast.build.plan.plan import Plan
from precast.build.toolchains.plans import Toolchains, groups_of_files


def plan_files(
    paths: Sequence[Path], *, profiles: Profiles | None = None, notes: Memo | None = None, **options: Any
) -> Plan:
    """The plan of some manifests together; ``options`` are those of ``groups_of_files``."""
    (group,) = groups_of_files(paths, **options)
    return group.plan(Toolchains(), profiles=profiles, notes=notes)
