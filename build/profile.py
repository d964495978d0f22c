"""Profiles: what a GPU of each compute capability has, for builds on machines without one.

Compiling can ask about the device: persistent kernels bake in how many SMs there are. The answer comes from here.
The limits of a block are the capability's (CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"). The SM count is a product's, and products of one capability differ: ``product`` names whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from precast.loader.config import suggest
from precast.loader.errors import TargetError
from precast.loader.target import Capability, Target

KB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Facts about a device. ``shared_memory`` is what a block may opt in to, in bytes; ``max_cluster`` is the portable
    size (a kernel may opt in to 16 on 9.0 and 10.0), and 1 where there are no clusters."""

    product: str
    capability: Capability
    sm_count: int
    shared_memory: int
    shared_memory_per_sm: int
    max_threads_per_sm: int
    max_cluster: int
    source: str


def _profile(
    product: str, capability: Capability, sms: int, block: int, sm: int, threads: int, cluster: int, source: str
) -> Profile:
    return Profile(
        product=product,
        capability=capability,
        sm_count=sms,
        shared_memory=block * KB,
        shared_memory_per_sm=sm * KB,
        max_threads_per_sm=threads,
        max_cluster=cluster,
        source=source,
    )


_PROFILES = {
    p.capability: p
    for p in (
        _profile("A100", Capability(8, 0), 108, 163, 164, 2048, 1, "NVIDIA A100 Tensor Core GPU Architecture, 2020"),
        _profile("RTX A6000", Capability(8, 6), 84, 99, 100, 1536, 1, "NVIDIA Ampere GA102 GPU Architecture, 2021"),
        _profile(
            "L40S", Capability(8, 9), 142, 99, 100, 1536, 1, "NVIDIA L40S data sheet: 18,176 CUDA cores, 128 an SM"
        ),
        _profile(
            "H100 and H200 SXM",
            Capability(9, 0),
            132,
            227,
            228,
            2048,
            8,
            "NVIDIA H100 Tensor Core GPU Architecture, 2022",
        ),
        _profile(
            "B200", Capability(10, 0), 148, 227, 228, 2048, 8, "device properties of a B200: 74 SMs on each of two dies"
        ),
        _profile(
            "B300", Capability(10, 3), 148, 227, 228, 2048, 8, "device properties of a B300 SXM6; a full chip has 160"
        ),
        _profile("RTX 5090", Capability(12, 0), 170, 99, 100, 1536, 8, "NVIDIA RTX Blackwell GPU Architecture, 2025"),
        _profile("GB10", Capability(12, 1), 48, 99, 100, 1536, 8, "NVIDIA DGX Spark: 6,144 CUDA cores, 128 an SM"),
    )
}

CAPABILITIES = tuple(_PROFILES)


def profile_of(target: Target) -> Profile:
    """The profile a target is built with.

    >>> profile_of(Target.parse("sm_100a")).sm_count
    148
    """
    found = _PROFILES.get(target.capability)
    if found is None:
        known = ", ".join(f"sm_{c.major}{c.minor}" for c in _PROFILES)
        raise TargetError(f"nothing is known of the GPU behind {target}: build for one of {known}")
    return found


def facts_of(target: Target) -> dict[str, str]:
    """What ``${target...}`` may stand for in a manifest.

    >>> facts = facts_of(Target.parse("sm_90a"))
    >>> facts["name"], facts["arch"], facts["sm_count"], facts["shared_memory"]
    ('sm_90a', '90', '132', '232448')
    """
    profile = profile_of(target)
    return {
        "name": str(target),
        "arch": f"{target.major}{target.minor}",
        "capability": str(target.capability),
        "major": str(target.major),
        "minor": str(target.minor),
        "sm_count": str(profile.sm_count),
        "shared_memory": str(profile.shared_memory),
        "shared_memory_per_sm": str(profile.shared_memory_per_sm),
        "max_threads_per_sm": str(profile.max_threads_per_sm),
        "max_cluster": str(profile.max_cluster),
    }


def fact(target: Target, name: str) -> str:
    """One fact of a target by name."""
    facts = facts_of(target)
    if name not in facts:
        raise TargetError(f"a target has no {name!r}{suggest(name, facts)}")
    return facts[name]
