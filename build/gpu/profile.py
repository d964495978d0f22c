"""Profiles: the facts of a GPU, for builds on machines without one.

A kernel may ask about the device while it compiles: persistent kernels use the number of SMs. The answers come from
here. The names of facts are those of ``precast.loader.machine.facts``, by which the loader asks the driver for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.build.gpu.gpu_table import GPUS, TABLE, Fact, Gpu
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import suggest
from precast.loader.contract.format.target import Capability, Target
from precast.loader.errors import FormatError, TargetError
from precast.loader.machine.facts import CLUSTERS, Answer

CAPABILITIES = tuple(Capability(*numbers) for numbers in TABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A GPU's facts, each with its source. ``measured`` ones were read from a device."""

    name: str
    capability: Capability
    facts: Mapping[str, Fact]
    measured: bool = False

    @classmethod
    def of_gpu(cls, gpu: Gpu) -> Profile:
        """The profile of a named GPU: the product's facts over its architecture's.

        >>> Profile.of_gpu(GPUS["B200"]).answer("multiprocessor_count")
        148
        """
        facts = {**TABLE[gpu.capability], **gpu.facts}
        return cls(name=gpu.name, capability=Capability(*gpu.capability), facts={**_clusters(facts), **facts})

    def answer(self, name: str) -> Answer:
        """One fact, or None where it is not known."""
        found = self.facts.get(name)
        return found.value if found else None

    def gives(self, answers: Mapping[str, Answer]) -> bool:
        """Whether a kernel that got these answers would get the same ones from this profile."""
        return self.answers(answers) == dict(answers)

    def answers(self, names: Iterable[str]) -> dict[str, Answer]:
        """Several facts, sorted by their names."""
        return {name: self.answer(name) for name in sorted(set(names))}

    def to_json(self) -> dict[str, Any]:
        """The profile as workers read it."""
        return {"name": self.name, "facts": {name: fact.value for name, fact in sorted(self.facts.items())}}

    def __str__(self) -> str:
        return f"{self.name}, read from a device" if self.measured else self.name


@dataclass(frozen=True, slots=True)
class Profiles:
    """Which GPUs each target is built for: the chosen ones, or the usual one of its capability.

    >>> Profiles.named(["H200"]).of(Target.parse("sm_90a")).answer("l2_cache_size")
    62914560
    >>> [str(one) for one in Profiles.named(["H200", "B200", "H20"]).all_of(Target.parse("sm_90a"))]
    ['H200', 'H20']
    """

    chosen: tuple[Profile, ...] = ()

    @classmethod
    def named(cls, names: Sequence[str]) -> Profiles:
        """The profiles of GPUs by their names."""
        return cls().over(tuple(profile_named(name) for name in dict.fromkeys(names)))

    def over(self, profiles: Sequence[Profile]) -> Profiles:
        """These profiles in place of the earlier ones of their capabilities."""
        names = [p.name for p in profiles]
        for name in names:
            if names.count(name) > 1:
                raise TargetError(f"the profile {name} is chosen twice: choose it once")
        taken = {p.capability for p in profiles}
        return Profiles((*profiles, *(p for p in self.chosen if p.capability not in taken)))

    def all_of(self, target: Target) -> tuple[Profile, ...]:
        """The profiles that a target is built with, in the order in which they were chosen."""
        return self.chosen_for(target) or (profile_of(target),)

    def chosen_for(self, target: Target) -> tuple[Profile, ...]:
        """Those of them that somebody chose; none where the target is built for its usual GPU."""
        return tuple(p for p in self.chosen if p.capability == target.capability)

    def of(self, target: Target, name: str = "") -> Profile:
        """The profile of this name that a target is built with; the first without a name."""
        return next(p for p in self.all_of(target) if not name or p.name == name)


def profile_named(name: str) -> Profile:
    """The profile of a GPU by its name.

    >>> profile_named("B200").capability
    Capability(major=10, minor=0)
    """
    if name not in GPUS:
        raise TargetError(f"there is no profile {name!r}{suggest(name.upper(), GPUS)}")
    return Profile.of_gpu(GPUS[name])


def profile_of(target: Target) -> Profile:
    """The profile a target is built with unless another is chosen: the first GPU listed of its capability.

    >>> profile_of(Target.parse("sm_100a")).name
    'B200'

    >>> profile_of(Target.parse("sm_90f"))
    Traceback (most recent call last):
    precast.loader.errors.TargetError: there is no sm_90f: families begin with sm_100f; write sm_90a or sm_90...
    """
    _check_suffix(target)
    for gpu in GPUS.values():
        if Capability(*gpu.capability) == target.capability:
            return Profile.of_gpu(gpu)
    known = ", ".join(f"sm_{major}{minor}" for major, minor in TABLE)
    raise TargetError(f"nothing is known of the GPU behind {target}: build for one of {known}")


def _check_suffix(target: Target) -> None:
    """Raise TargetError for a target that CUDA has not. Features of one architecture alone begin with 9.0."""
    plain = Target(target.major, target.minor)
    if target.suffix == "f" and target.major < 10:
        exact = f"{plain}a or " if target.major == 9 else ""
        raise TargetError(f"there is no {target}: families begin with sm_100f; write {exact}{plain}")
    if target.suffix == "a" and target.major < 9:
        raise TargetError(f"there is no {target}: features of one architecture begin with sm_90a; write {plain}")


def parse_facts(value: object, source: str) -> dict[str, Fact]:
    """Facts that another process has sent, checked like any other input."""
    return {name: Fact(answer, source) for name, answer in parse_answers(value).items() if answer is not None}


def parse_answers(value: object) -> dict[str, Answer]:
    """Answers by name: numbers, texts, or nothing."""
    answers: dict[str, Answer] = {}
    for name, answer in fields.as_object(value).items():
        if isinstance(answer, bool) or not (answer is None or isinstance(answer, (int, str))):
            raise FormatError(f"expected a number, a text or null, not {type(answer).__name__}", name[:80])
        answers[name] = answer
    return dict(sorted(answers.items()))


_REFERENCE = re.compile(r"\$\{([^}]*)\}")
# What ``${target...}`` may stand for in a manifest, besides every fact by its own name.
_SHORT = {
    "sm_count": "multiprocessor_count",
    "shared_memory": "max_shared_memory_per_block_optin",
    "shared_memory_per_sm": "max_shared_memory_per_multiprocessor",
    "max_threads_per_sm": "max_threads_per_multiprocessor",
    "max_cluster": "max_portable_cluster_size",
    "product": "name",
}
_OF_TARGET = {"name", "arch", "capability", "major", "minor"}


def facts_of(target: Target, profile: Profile | None = None) -> dict[str, str]:
    """What ``${target...}`` may stand for in a manifest.

    >>> facts = facts_of(Target.parse("sm_90a"))
    >>> facts["name"], facts["arch"], facts["sm_count"], facts["shared_memory"]
    ('sm_90a', '90', '132', '232448')
    """
    profile = profile or profile_of(target)
    known = {name: str(fact.value) for name, fact in profile.facts.items()}
    return {
        **known,
        **{short: known[name] for short, name in _SHORT.items() if name in known},
        "name": str(target),
        "product": profile.name,
        "arch": f"{target.major}{target.minor}",
        "capability": str(target.capability),
        "major": str(target.major),
        "minor": str(target.minor),
    }


def fact_references(text: str) -> list[str]:
    """What a text refers to as ``${...}``.

    >>> fact_references("n=${target.sm_count}")
    ['target.sm_count']
    """
    return _REFERENCE.findall(text)


def facts_behind(text: str) -> set[str]:
    """The facts of the GPU that a text takes in as ``${target...}``; those of the target itself are no such facts.

    >>> facts_behind("${target.sm_count} SMs of ${target.name}")
    {'multiprocessor_count'}
    """
    names = {reference.partition(".")[2] for reference in fact_references(text)}
    return {_SHORT.get(name, name) for name in names - _OF_TARGET}


def fill_in_facts(text: str, target: Target, profile: Profile | None = None) -> str:
    """A text with the facts of a target, on its usual GPU or on another, in place of ``${target.NAME}``.

    >>> fill_in_facts("n=${target.sm_count}", Target.parse("sm_90a"))
    'n=132'
    """
    return _REFERENCE.sub(lambda match: _fact(match[1], target, profile), text)


def _fact(reference: str, target: Target, profile: Profile | None) -> str:
    head, _, name = reference.partition(".")
    if head != "target" or not name:
        raise TargetError(
            "only a target's facts can be put in: write ${target.sm_count}, ${target.arch} or ${target.name}"
        )
    facts = facts_of(target, profile)
    if name not in facts:
        raise TargetError(f"a target has no {name!r}{suggest(name, facts)}")
    return facts[name]


def _clusters(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """How many clusters of each size can run at once. Two blocks fit in every pair of SMs; of larger ones it is the
    most there can be: how its SMs are grouped is each chip's own. A loop over a grid of them is right either way."""
    sms = facts["multiprocessor_count"]
    assert isinstance(sms.value, int)
    found = {}
    for size in range(1, 17 if "cluster_launch" in facts else 2):
        exact = "the SM count" if size == 1 else f"the SM count over {size}{'' if size == 2 else ', an upper bound'}"
        found[f"{CLUSTERS}{size}"] = Fact(sms.value // size, f"{exact}; {sms.source}")
    return found
