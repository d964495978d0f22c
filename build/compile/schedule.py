"""The schedule: what is left to compile, in which order, and for which kind of worker."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from precast.build.plan.plan import Variant
from precast.loader.format.target import Target

Group = tuple[Target, tuple[tuple[str, str], ...], str]
START = 3.0  # seconds; what starting a worker costs, and so what another group must have left to be worth one
UNKNOWN = 1.0  # seconds; for a variant of which nothing is known


@dataclass(frozen=True, slots=True)
class Task:
    """A variant to compile. One that was lost together with a used worker gets a ``fresh`` one, once."""

    variant: Variant
    seconds: float
    fresh: bool = False

    @property
    def group(self) -> Group:
        """The kind of worker it needs.

        Kernels of one package share workers, and others do not: what a library asks of the GPU while it is imported is
        then recorded of its own kernels alone, whatever a worker compiled before.
        """
        package = self.variant.source.partition(":")[0].rpartition(".")[0]
        return self.variant.target, tuple(sorted(self.variant.env.items())), package

    def again(self) -> Task:
        """The same, for a worker that has compiled nothing yet."""
        return replace(self, fresh=True)


def ordered(variants: Sequence[Variant], seconds: Mapping[str, float]) -> list[Task]:
    """Largest first, so that no long one is left for the end; ``seconds`` knows what each took before, by identity.

    An unknown variant counts as the mean of its op's known ones. Where an op has none it comes first: it may be long.
    Equals keep the order of the plan.
    """
    known: dict[str, list[float]] = {}
    for v in variants:
        if v.identity in seconds:
            known.setdefault(v.op, []).append(seconds[v.identity])
    means = {op: sum(values) / len(values) for op, values in known.items()}
    guesses = [seconds.get(v.identity, means.get(v.op)) for v in variants]
    pairs = sorted(zip(variants, guesses, strict=True), key=lambda p: (p[1] is not None, -(p[1] or 0.0)))
    return [Task(v, UNKNOWN if guess is None else guess) for v, guess in pairs]


class Schedule:
    """Hands out tasks to workers. Safe to use from several threads."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._lock = threading.Lock()
        self._left: dict[Group, deque[Task]] = {}
        self._serving: dict[Group, int] = {}
        for task in tasks:
            self._left.setdefault(task.group, deque()).append(task)

    def first(self) -> Task | None:
        """A task for a worker that is yet to be started: of the group with most work left for each of its workers.

        None where nothing is left, or so little that those at it are done sooner than a worker starts. Whoever gets
        a task serves its group until ``leave``.
        """
        with self._lock:
            groups = [g for g, left in self._left.items() if left and self._worth(g)]
            if not groups:
                return None
            group = max(groups, key=self._share)
            self._serving[group] = self._serving.get(group, 0) + 1
            return self._left[group].popleft()

    def next(self, group: Group, *, ahead: bool = False) -> Task | None:
        """One more task for a worker of a group; ``ahead`` of need only while there are enough for the others too."""
        with self._lock:
            left = self._left[group]
            if not left or left[0].fresh or (ahead and len(left) < self._serving.get(group, 0)):
                return None
            return left.popleft()

    def give_back(self, *tasks: Task) -> None:
        """Put tasks back in front of their group's queue."""
        with self._lock:
            for task in reversed(tasks):
                self._left[task.group].appendleft(task)

    def leave(self, group: Group) -> None:
        """A worker of this group is gone."""
        with self._lock:
            self._serving[group] -= 1

    def drop(self, group: Group) -> tuple[Task, ...]:
        """Take out all that is left of a group."""
        with self._lock:
            dropped = tuple(self._left[group])
            self._left[group].clear()
            return dropped

    def _share(self, group: Group) -> float:
        return sum(t.seconds for t in self._left[group]) / (1 + self._serving.get(group, 0))

    def _worth(self, group: Group) -> bool:
        serving = self._serving.get(group, 0)
        return serving == 0 or sum(t.seconds for t in self._left[group]) / serving > START or self._left[group][0].fresh
