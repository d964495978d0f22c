"""Whether the assumptions of an artifact about its GPU hold on this one. Pure, except for the machine's ``query``.

A fact that must hold and does not is a reason to refuse: blocks that wait for each other wait forever where fewer run
at once. A fact that only costs speed is not; the artifact is then preferred less than one for which it holds, and
``explain`` reports it. A fact that must hold and that the driver cannot report is a reason to refuse, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.assumptions import Built
from precast.loader.machine.machine import Machine, Query

RECORDED = "assumed"  # in an artifact's provenance: every fact that its kernel queried, with its value
_REMEDY = "build it with this GPU among the manifest's 'profiles', or here with --profile-from-device"
_UPDATE = "update the driver, or build it for the target with a kernel that does not ask"


def unmet(artifact: Artifact, machine: Machine) -> str | None:
    """Why an artifact must not run on a machine's GPU; None where all its needs hold, or there is nothing to query."""
    if artifact.assumes is None or machine.query is None:
        return None
    wrong = list(_differing(artifact.assumes.needs, machine.query))
    if not wrong:
        return None
    readable = any(here is not None for _, _, here in wrong)
    return f"{_listed(wrong)}: {_REMEDY if readable else _UPDATE}"


def slower(artifact: Artifact, machine: Machine) -> str:
    """What differs on a machine's GPU and only costs speed; empty where nothing does."""
    if artifact.assumes is None or machine.query is None:
        return ""
    wrong = list(_differing(artifact.assumes.speed, machine.query))
    return f"{_listed(wrong)}, which may cost speed: {_REMEDY}" if wrong else ""


def _differing(built: Built, query: Query) -> Iterator[tuple[str, int | str, int | str | None]]:
    """The facts that differ: the name, the value at build time, and the value here."""
    for name, value in sorted(built.items()):
        here = query(name)
        if here != value:
            yield name, value, here


def _listed(wrong: list[tuple[str, int | str, int | str | None]]) -> str:
    return "; ".join(
        f"built for a GPU whose {name} is {value!r}, "
        + ("and the driver cannot tell this one's" if here is None else f"this one's is {here!r}")
        for name, value, here in wrong
    )
