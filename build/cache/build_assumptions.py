"""The facts of its GPU that an artifact depends on, out of those that its kernel requested."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from precast.build.gpu.gpu_table import TABLE
from precast.build.gpu.profile import Profile, parse_answers
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.target import Capability, Target
from precast.loader.contract.values import replace
from precast.loader.errors import FormatError
from precast.loader.machine.facts import CLUSTERS, Answer, cluster_size
from precast.loader.resolve.assumptions import RECORDED

PROFILE = "profile"  # in the provenance: the GPU, or a list of GPUs with the same facts

# The identity and the position of a GPU, and versions that the target and the toolkit determine.
_IDENTITY = frozenset((
    "compute_capability_major", "compute_capability_minor", "driver_version", "pci_bus_id", "pci_device_id",
    "pci_domain_id", "gpu_pci_device_id", "gpu_pci_subsystem_id", "multi_gpu_board_group_id", "numa_id", "host_numa_id",
))  # fmt: skip
# These only affect speed. The product's name is among them, since drivers have several for one product, and so is the
# size of the memory, which differs slightly between drivers.
_SPEED = frozenset((
    "name", "total_memory", "l2_cache_size", "clock_rate", "memory_clock_rate", "global_memory_bus_width",
))  # fmt: skip


def assumptions_of(facts: Mapping[str, Answer], speed_only: Collection[str], target: Target) -> Assumptions | None:
    """The assumptions of an artifact that got these facts; None if all GPUs of its target have the same ones.

    >>> assumptions_of({"multiprocessor_count": 132, "warp_size": 32}, (), Target.parse("sm_90a"))
    Assumptions(needs={'multiprocessor_count': 132}, speed={})
    """
    differing = {
        name: answer
        for name, answer in sorted(facts.items())
        if answer is not None and name not in _IDENTITY and not _everywhere(name, answer, target)
    }
    speed = {name: answer for name, answer in differing.items() if _only_speed(name, speed_only)}
    needs = {name: answer for name, answer in differing.items() if name not in speed}
    return Assumptions(needs=needs, speed=speed) if differing else None


def _everywhere(name: str, answer: int | str, target: Target) -> bool:
    """Whether every GPU that the target runs on has this value."""
    limits = [facts for numbers, facts in TABLE.items() if target.runs_on(Capability(*numbers))]
    return bool(limits) and all(name in facts and facts[name].value == answer for facts in limits)


def _only_speed(name: str, declared: Collection[str]) -> bool:
    any_size = cluster_size(name) is not None and CLUSTERS.rstrip("_") in declared
    return name in _SPEED or name in declared or any_size


def asked_by(artifact: Artifact) -> dict[str, Answer]:
    """The facts that the kernel of an artifact requested, with their values; none if its cache does not have them."""
    try:
        return parse_answers(artifact.provenance.get(RECORDED, {}))
    except FormatError:
        return {}


def record_of(facts: Mapping[str, Answer], profiles: Collection[Profile]) -> dict[str, Any]:
    """The fields of the provenance with the facts that a kernel requested, and the GPUs that have these facts."""
    if not facts:
        return {}
    return {RECORDED: dict(sorted(facts.items())), **named([str(p) for p in profiles if p.gives(facts)])}


def named(profiles: Collection[str]) -> dict[str, Any]:
    """The field of the provenance that names these GPUs.

    >>> named(["H200", "H100", "H200"])
    {'profile': ['H100', 'H200']}
    """
    names = sorted(set(profiles))
    return {PROFILE: names if len(names) > 1 else names[0]} if names else {}


def gpus_of(artifact: Artifact) -> list[str]:
    """The GPUs that an artifact's provenance names; none if it was built for any."""
    names = artifact.provenance.get(PROFILE, [])
    return [str(name) for name in names] if isinstance(names, list) else [str(names)]


def for_gpus(artifact: Artifact, profiles: Collection[str]) -> Artifact:
    """The same artifact with the names of these GPUs, which all have the facts that it was built with."""
    others = {name: value for name, value in artifact.provenance.items() if name != PROFILE}
    return replace(artifact, provenance={**others, **named(profiles)})
