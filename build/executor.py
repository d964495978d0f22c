"""Executors: where variants are compiled. Each takes the same request and gives the same outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from precast.build.compile import Outcome, compile_variants
from precast.build.plan import Plan, Variant


class Executor(Protocol):
    """Compiles some of a plan's variants and gives an outcome for each, in any order, as they are ready."""

    def compile(self, plan: Plan, variants: Sequence[Variant], *, seconds: float) -> Iterator[Outcome]:
        """``seconds`` is how long one variant may take. Ends what it has started when the iteration is left."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """Worker processes of this machine."""

    jobs: int

    def compile(self, plan: Plan, variants: Sequence[Variant], *, seconds: float) -> Iterator[Outcome]:
        """Compile in so many processes."""
        return compile_variants(variants, search=plan.search, profiles=plan.profiles, jobs=self.jobs, seconds=seconds)
