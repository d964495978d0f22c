"""Whether what an artifact assumed of its GPU holds on this one; pure, but for what the machine's ``ask`` does.

A fact that must hold and does not is a reason to refuse: blocks that wait for each other wait for ever where fewer run
at once. A fact that only costs speed is no such reason; the artifact comes behind one for which it holds, and
``explain`` says so. Where the driver cannot tell a fact, nobody knows whether it holds: one that must is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.assumptions import Built
from precast.loader.machine.machine import Ask, Machine

RECORDED = "assumed"  # in an artifact's provenance: every fact that its kernel asked for, with the answer
_REMEDY = "build it with this GPU among the manifest's 'profiles', or here with --profile-from-device"
_UPDATE = "update the driver, or build it for the target with a kernel that does not ask"


def unmet(artifact: Artifact, machine: Machine) -> str | None:
    """Why an artifact must not run on a machine's GPU; None where all that must hold does, or nothing can be asked."""
    if artifact.assumes is None or machine.ask is None:
        return None
    wrong = list(_differing(artifact.assumes.needs, machine.ask))
    if not wrong:
        return None
    known = any(here is not None for _, _, here in wrong)
    return f"{_listed(wrong)}: {_REMEDY if known else _UPDATE}"


def slower(artifact: Artifact, machine: Machine) -> str:
    """What differs on a machine's GPU and only costs speed; empty where nothing does."""
    if artifact.assumes is None or machine.ask is None:
        return ""
    wrong = list(_differing(artifact.assumes.speed, machine.ask))
    return f"{_listed(wrong)}, which may cost speed: {_REMEDY}" if wrong else ""


def _differing(built: Built, ask: Ask) -> Iterator[tuple[str, int | str, int | str | None]]:
    """The facts that are not as they were: what they were, and what they are here."""
    for name, value in sorted(built.items()):
        here = ask(name)
        if here != value:
            yield name, value, here


def _listed(wrong: list[tuple[str, int | str, int | str | None]]) -> str:
    return "; ".join(
        f"built for a GPU whose {name} is {value!r}, "
        + ("and the driver cannot tell this one's" if here is None else f"this one's is {here!r}")
        for name, value, here in wrong
    )
