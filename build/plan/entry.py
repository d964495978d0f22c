"""Entries of manifests: which kernel to build, with which configs, for which targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from precast.build.errors import Location
from precast.build.gpu.profile import Profile, facts_behind, fill_in_facts
from precast.build.plan.problems import Problem
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format.target import Target
from precast.loader.machine.facts import Answer

Nodes = Mapping[str, Node]
Environment = tuple[tuple[str, str], ...]
"""Variables and their values, sorted by name."""


class Program(Protocol):
    """What an entry with ``call`` or ``script`` runs. ``precast.attach.builder.program`` reads it."""

    @property
    def source(self) -> str | Path:
        """The function, ``module:function``, or the script."""


class KernelRef(NamedTuple):
    """A kernel function as an entry names it: its op, its ``module:function``, or both; and the entry's variables."""

    op: str | None = None
    source: str | None = None
    env: Environment = ()
    inputs: tuple[str, ...] = ()


def environment_of(env: Mapping[str, str]) -> Environment:
    """Variables in their order, as a value that can be a key.

    >>> environment_of({"B": "2", "A": "1"})
    (('A', '1'), ('B', '2'))
    """
    return tuple(sorted(env.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item of ``kernels``. ``source`` is ``module:function``, or None for a registered op.

    An entry with a ``program`` has neither: ``precast.attach.builder.program_recorder`` replaces it by entries of the
    kernels that the program requests.

    ``config``, ``tuned`` and the rows of ``include`` and ``exclude`` keep their nodes: values are checked against the
    op's keys later, and an error then points at the value.
    """

    op: str | None
    source: str | None
    location: Location
    targets: tuple[Target, ...]
    config: Nodes = field(default_factory=dict)
    tuned: Nodes = field(default_factory=dict)
    include: tuple[Node, ...] = ()
    exclude: tuple[Node, ...] = ()
    emit: tuple[str, ...] = ("object",)
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    speed_only: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    problems_at: Location | None = None
    gpus: tuple[str, ...] = ()  # the profiles for which a program requested the kernel; all if empty
    skip_unsupported: bool = False
    program: Program | None = None

    def environment(self, target: Target, profile: Profile | None = None) -> dict[str, str]:
        """``env`` for one target, with the facts of its usual GPU, or of another, filled in."""
        return {name: fill_in_facts(value, target, profile) for name, value in self.env.items()}

    def assumed(self, profile: Profile) -> dict[str, Answer]:
        """The facts of a GPU that ``env`` uses."""
        return profile.answers(name for value in self.env.values() for name in facts_behind(value))

    @property
    def ref(self) -> KernelRef:
        """The kernel to describe before the entry can be expanded. It is imported as for the entry's first target."""
        return KernelRef(self.op, self.source, environment_of(self.environment(self.targets[0])), self.inputs)
