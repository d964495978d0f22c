"""What an artifact states of the GPU that it was built for: out of what its kernel asked, that which may differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from precast.build.gpu.gpu_table import TABLE
from precast.build.gpu.profile import Profile, parse_answers
from precast.loader.errors import FormatError
from precast.loader.fast_start.values import replace
from precast.loader.format.artifact import Artifact
from precast.loader.format.assumptions import Assumptions
from precast.loader.format.target import Capability, Target
from precast.loader.machine.facts import CLUSTERS, Answer, cluster_size
from precast.loader.resolve.assumptions import RECORDED

PROFILE = "profile"  # in the provenance: the GPU, or a list of those that gave the same answers

# What a GPU is called and where it is; and the versions of its instructions and of its driver, which the target and the
# toolkit decide.
_IDENTITY = frozenset((
    "compute_capability_major", "compute_capability_minor", "driver_version", "pci_bus_id", "pci_device_id",
    "pci_domain_id", "gpu_pci_device_id", "gpu_pci_subsystem_id", "multi_gpu_board_group_id", "numa_id", "host_numa_id",
))  # fmt: skip
# Nothing that CUDA promises depends on these: a kernel can only be slower by them. A product's name is among them,
# since drivers have several for one product, and the memory, which differs a little between drivers.
_SPEED = frozenset((
    "name", "total_memory", "l2_cache_size", "clock_rate", "memory_clock_rate", "global_memory_bus_width",
))  # fmt: skip


def assumptions_of(facts: Mapping[str, Answer], speed_only: Collection[str], target: Target) -> Assumptions | None:
    """What an artifact must state that got these answers; None where they are so wherever its target runs.

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
    """Whether an answer is that of every GPU that the target runs on."""
    limits = [facts for numbers, facts in TABLE.items() if target.runs_on(Capability(*numbers))]
    return bool(limits) and all(name in facts and facts[name].value == answer for facts in limits)


def _only_speed(name: str, declared: Collection[str]) -> bool:
    any_size = cluster_size(name) is not None and CLUSTERS.rstrip("_") in declared
    return name in _SPEED or name in declared or any_size


def asked_by(artifact: Artifact) -> dict[str, Answer]:
    """The facts that the kernel of an artifact asked for, with the answers; none where its cache does not say it."""
    try:
        return parse_answers(artifact.provenance.get(RECORDED, {}))
    except FormatError:
        return {}


def record_of(facts: Mapping[str, Answer], profiles: Collection[Profile]) -> dict[str, Any]:
    """What the provenance says of what a kernel asked, and which of these GPUs gave such answers."""
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
    """The GPUs that an artifact's provenance names; none where it was built for any."""
    names = artifact.provenance.get(PROFILE, [])
    return [str(name) for name in names] if isinstance(names, list) else [str(names)]


def for_gpus(artifact: Artifact, profiles: Collection[str]) -> Artifact:
    """The same artifact with these GPUs named: all of them gave the answers that it was built with."""
    others = {name: value for name, value in artifact.provenance.items() if name != PROFILE}
    return replace(artifact, provenance={**others, **named(profiles)})
