"""The variants of the installed caches that this machine's GPU runs."""

from __future__ import annotations

from typing import Any

from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.registry import find, known_ops, load
from precast.loader.contract.format.target import Capability

# Ops that several ranks launch together, or none: a separate test is all ranks.
TOGETHER = ("all_reduce",)


def runnable() -> list[Any]:
    """Every object for the current device that can be launched alone, in a stable order."""
    return [(op, v) for op, v in objects() if op not in TOGETHER]


def first_of_each() -> list[Any]:
    """Of these, the first of each op: for tests that take long, since ``precast verify`` is for every variant."""
    return list({op: (op, variant) for op, variant in reversed(runnable())}.values())


def objects() -> list[Any]:
    """Every object for the current device; none where there is no device."""
    return [(op, v) for op, v in all_runnable() if v.artifact.kind == "object"]


def all_runnable() -> list[Any]:
    """Every candidate for the current device, of any kind, of the ops that a distribution registers.

    What a test's own cache holds beside them is that test's (``test_scripts.py``).
    """
    try:
        import torch
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []
    from precast import loader

    capability = Capability(*torch.cuda.get_device_capability())
    known = set(known_ops())
    ours = [op for op in loader.ops() if op in known or op.rpartition(".")[0] in known]  # an op, or a part of one
    found = [(op, v) for op in ours for v in loader.variants(op)]
    first: dict[tuple[str, str, str], Any] = {}  # a variant that two caches hold is taken from the preferred one
    for op, v in found:
        if v.artifact.target.runs_on(capability):
            key = (op, v.artifact.kind, str(sorted(v.artifact.config.items())))
            if key not in first or (_for_this_gpu(v) and not _for_this_gpu(first[key][1])):
                first[key] = (op, v)
    return list(first.values())


def _for_this_gpu(candidate: Any) -> bool:
    """Whether all that it assumes of its GPU holds here, where it was built for several."""
    from precast.loader import session
    from precast.loader.resolve.assumptions import slower, unmet

    machine = session.default.machines.on()
    return not unmet(candidate.artifact, machine) and not slower(candidate.artifact, machine)


def name(case: Any) -> str:
    """A case's name in a test report."""
    op, variant = case
    return "-".join([op, *(str(value) for value in variant.artifact.config.values())])


def declared(op: str) -> Declaration:
    """The declaration of an op that a distribution registers."""
    return declaration_of(load(find(op)))
