"""Profiles: the facts of a GPU, for builds on machines without one.

A kernel may query the device while it compiles: persistent kernels use the number of SMs. The values come from here.
The names of facts are those of ``precast.loader.machine.facts``, with which the loader queries the driver.
"""

from __future__ import annotations

import functools
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
    """A GPU's facts, each with its source. A ``measured`` profile was read from a device."""

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
        """One fact, or None if it is not known."""
        fact = self.facts.get(name)
        return fact.value if fact else None

    def gives(self, answers: Mapping[str, Answer]) -> bool:
        """Whether this profile has the same values for these facts."""
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
    """The GPUs that each target is built for: the chosen ones, or the default one of its capability.

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
        """These profiles, and the earlier ones of other capabilities."""
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
        """The profiles of a target that were chosen; none if it is built for its default GPU."""
        return tuple(p for p in self.chosen if p.capability == target.capability)

    def of(self, target: Target, name: str = "") -> Profile:
        """The profile of this name that a target is built with; without a name, the first one."""
        return next(p for p in self.all_of(target) if not name or p.name == name)


def profile_named(name: str) -> Profile:
    """The profile of a GPU by its name.

    >>> profile_named("B200").capability
    Capability(major=10, minor=0)
    """
    if name not in GPUS:
        raise TargetError(f"there is no profile {name!r}{suggest(name.upper(), GPUS)}")
    return Profile.of_gpu(GPUS[name])


@functools.cache  # a plan takes it for each of its variants
def profile_of(target: Target) -> Profile:
    """The default profile of a target: that of the first listed GPU of its capability.

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
    targets = ", ".join(f"sm_{major}{minor}" for major, minor in TABLE)
    raise TargetError(f"there is no profile of a GPU for {target}: build for one of {targets}")


def _check_suffix(target: Target) -> None:
    """Raise TargetError for a target that CUDA does not have."""
    plain = Target(target.major, target.minor)
    if target.suffix == "f" and target.major < 10:
        exact = f"{plain}a or " if target.major == 9 else ""
        raise TargetError(f"there is no {target}: families begin with sm_100f; write {exact}{plain}")
    if target.suffix == "a" and target.major < 9:
        raise TargetError(f"there is no {target}: features of one architecture begin with sm_90a; write {plain}")


def parse_facts(value: object, source: str) -> dict[str, Fact]:
    """Facts that another process sent, checked like any other input."""
    return {name: Fact(answer, source) for name, answer in parse_answers(value).items() if answer is not None}


def parse_answers(value: object) -> dict[str, Answer]:
    """Values by name: numbers, texts, or None."""
    answers: dict[str, Answer] = {}
    for name, answer in fields.as_object(value).items():
        if isinstance(answer, bool) or not (answer is None or isinstance(answer, (int, str))):
            raise FormatError(f"expected a number, a text or null, got {type(answer).__name__}", name[:80])
        answers[name] = answer
    return dict(sorted(answers.items()))


_REFERENCE = re.compile(r"\$\{([^}]*)\}")
# Short names for ``${target...}`` in a manifest, besides the name of every fact.
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
    """The values of ``${target...}`` in a manifest, by name.

    >>> facts = facts_of(Target.parse("sm_90a"))
    >>> facts["name"], facts["arch"], facts["sm_count"], facts["shared_memory"]
    ('sm_90a', '90', '132', '232448')
    """
    profile = profile or profile_of(target)
    facts = {name: str(fact.value) for name, fact in profile.facts.items()}
    return {
        **facts,
        **{short: facts[name] for short, name in _SHORT.items() if name in facts},
        "name": str(target),
        "product": profile.name,
        "arch": f"{target.major}{target.minor}",
        "capability": str(target.capability),
        "major": str(target.major),
        "minor": str(target.minor),
    }


def fact_references(text: str) -> list[str]:
    """The references ``${...}`` in a text.

    >>> fact_references("n=${target.sm_count}")
    ['target.sm_count']
    """
    return _REFERENCE.findall(text)


def facts_behind(text: str) -> set[str]:
    """The facts of the GPU that a text uses as ``${target...}``; properties of the target itself do not count.

    >>> facts_behind("${target.sm_count} SMs of ${target.name}")
    {'multiprocessor_count'}
    """
    names = {reference.partition(".")[2] for reference in fact_references(text)}
    return {_SHORT.get(name, name) for name in names - _OF_TARGET}


def fill_in_facts(text: str, target: Target, profile: Profile | None = None) -> str:
    """A text with the facts of a target, on its default GPU or on another, in place of ``${target.NAME}``.

    >>> fill_in_facts("n=${target.sm_count}", Target.parse("sm_90a"))
    'n=132'
    """
    return _REFERENCE.sub(lambda match: _fact(match[1], target, profile), text)


def _fact(reference: str, target: Target, profile: Profile | None) -> str:
    head, _, name = reference.partition(".")
    if head != "target" or not name:
        raise TargetError(
            "only facts of the target can be filled in: write ${target.sm_count}, ${target.arch} or ${target.name}"
        )
    facts = facts_of(target, profile)
    if name not in facts:
        raise TargetError(f"a target has no fact {name!r}{suggest(name, facts)}")
    return facts[name]


def _clusters(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """How many clusters of each size can run at once. Two blocks fit in every pair of SMs; for larger clusters the
    number is an upper bound, since the grouping of SMs differs between chips. Persistent loops are correct anyway."""
    sms = facts["multiprocessor_count"]
    assert isinstance(sms.value, int)
    clusters = {}
    for size in range(1, 17 if "cluster_launch" in facts else 2):
        exact = "the SM count" if size == 1 else f"the SM count over {size}{'' if size == 2 else ', an upper bound'}"
        clusters[f"{CLUSTERS}{size}"] = Fact(sms.value // size, f"{exact}; {sms.source}")
    return clusters
