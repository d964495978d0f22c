"""The schedule: the tasks that are left, their order, and the group of workers for each."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from precast.build.plan.variant import Variant
from precast.loader.contract.format.target import Target

Group = tuple[Target, tuple[tuple[str, str], ...], str, str]
START = 3.0  # seconds to start a worker; a group with less work left gets no further worker
OWN = "precast.kernels.own"
UNKNOWN = 1.0  # seconds; the estimate for a variant that was never compiled


@dataclass(frozen=True, slots=True)
class Task:
    """A variant to compile. If a used worker is lost with it, it is tried once more with a ``fresh`` worker."""

    variant: Variant
    seconds: float
    fresh: bool = False

    @property
    def group(self) -> Group:
        """The group of workers that can compile it: one target, one environment, one package, one GPU.

        Kernels of different packages do not share workers: the facts that a library requests while it is imported must
        be recorded only for its own kernels. precast's own import the compiler and no library.
        """
        module = self.variant.source.partition(":")[0]
        package = OWN if module.startswith(f"{OWN}.") else module.rpartition(".")[0]
        return self.variant.target, tuple(sorted(self.variant.env.items())), package, self.variant.profile

    def again(self) -> Task:
        """The same task, for a worker that has compiled nothing yet."""
        return replace(self, fresh=True)


def ordered(variants: Sequence[Variant], seconds: Mapping[str, float]) -> list[Task]:
    """Longest first, so that no long variant is left for the end. ``seconds`` holds earlier times by identity.

    An unknown variant counts as the mean of the known ones of its op. An op without known ones comes first: it may be
    long. Equal ones keep the order of the plan.
    """
    by_op: dict[str, list[float]] = {}
    for v in variants:
        if v.identity in seconds:
            by_op.setdefault(v.op, []).append(seconds[v.identity])
    means = {op: sum(values) / len(values) for op, values in by_op.items()}
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
        """A task for a new worker: from the group with the most work left for each of its workers.

        None if nothing is left, or too little for a new worker to be useful. The caller counts as a worker of the
        task's group until ``leave``.
        """
        with self._lock:
            groups = [g for g, left in self._left.items() if left and self._worth(g)]
            if not groups:
                return None
            group = max(groups, key=self._share)
            self._serving[group] = self._serving.get(group, 0) + 1
            return self._left[group].popleft()

    def next(self, group: Group, *, ahead: bool = False) -> Task | None:
        """One more task for a worker of a group; ``ahead`` only while enough are left for the other workers."""
        with self._lock:
            left = self._left[group]
            if not left or left[0].fresh or (ahead and len(left) < self._serving.get(group, 0)):
                return None
            return left.popleft()

    def has_more(self, group: Group) -> bool:
        """Whether any tasks of a group are left."""
        with self._lock:
            return bool(self._left[group])

    def give_back(self, *tasks: Task) -> None:
        """Put tasks back at the front of their group's queue."""
        with self._lock:
            for task in reversed(tasks):
                self._left[task.group].appendleft(task)

    def leave(self, group: Group) -> None:
        """A worker of this group has ended."""
        with self._lock:
            self._serving[group] -= 1

    def drop(self, group: Group) -> tuple[Task, ...]:
        """Remove and return all tasks that are left of a group."""
        with self._lock:
            dropped = tuple(self._left[group])
            self._left[group].clear()
            return dropped

    def _share(self, group: Group) -> float:
        return sum(t.seconds for t in self._left[group]) / (1 + self._serving.get(group, 0))

    def _worth(self, group: Group) -> bool:
        serving = self._serving.get(group, 0)
        return serving == 0 or sum(t.seconds for t in self._left[group]) / serving > START or self._left[group][0].fresh
