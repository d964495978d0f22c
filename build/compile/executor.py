"""Executors: where variants are compiled. All take the same request and yield the same outcomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from precast.build.compile.outcome import Outcome
from precast.build.compile.pool import Limits, Pool, watch
from precast.build.compile.schedule import Schedule, ordered
from precast.build.inputs.closure import Closures
from precast.build.ipc.capacity import MemoryBudget, default_jobs, free_memory, memory_bound
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant


class Executor(Protocol):
    """Compiles some of a plan's variants and yields an outcome for each as it is ready, in any order."""

    def compile(
        self, plan: Plan, variants: Sequence[Variant], *, seconds: float, twice: Collection[str] = ()
    ) -> Iterator[Outcome]:
        """Compile. One variant may take ``seconds``, and those with an identity in ``twice`` must give the same objects
        twice. Leaving the iteration ends all processes that were started."""
        ...


def _ignore(variant: Variant) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Local:
    """Worker processes on this machine: ``jobs`` of them, or as many as it has processors and memory for.

    ``memory`` is the number of bytes that one worker may take. ``known`` has the seconds that variants took before, by
    identity: the longest are compiled first. ``started`` is called when a worker begins a variant. ``closures`` has
    what variants may read.
    """

    jobs: int | None = None
    memory: int | None = None
    known: Mapping[str, float] = field(default_factory=dict)  # words: allow
    started: Callable[[Variant], None] = _ignore
    closures: Closures | None = None

    def compile(
        self, plan: Plan, variants: Sequence[Variant], *, seconds: float, twice: Collection[str] = ()
    ) -> Generator[Outcome, None, None]:
        """Compile in worker processes. A lost worker fails the variant that it was compiling, and no other."""
        if not variants:
            return
        jobs = min(self.jobs or default_jobs(), len(variants))
        pool = Pool(
            Schedule(ordered(variants, self.known)),
            jobs=jobs,
            search=plan.search,
            profiles=plan.profiles,
            limits=Limits(seconds=seconds, memory=self.memory or memory_bound(jobs)),
            budget=MemoryBudget(None if self.jobs else free_memory()),
            closures=self.closures or Closures.here(plan.search),
            twice=twice,
        )
        with closing(pool.events()) as events:
            yield from watch(events, self.started)
