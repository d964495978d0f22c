"""The pool: worker processes that serve a schedule. A lost worker fails the variant that it was compiling, no other."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from precast.build.compile.outcome import Failed, Outcome, outcome_of, request_for
from precast.build.compile.schedule import Group, Schedule, Task
from precast.build.compile.worker import Worker
from precast.build.gpu.profile import Profiles
from precast.build.inputs.closure import Closures
from precast.build.ipc.capacity import MemoryBudget, resident
from precast.build.ipc.child_process import START_SECONDS, ChildLost
from precast.build.ipc.message import Message
from precast.build.plan.variant import Variant

_AHEAD_LIMIT = 32 << 10  # bytes; a request sent ahead must fit into the pipe, or both sides block
_GRACE = 30.0  # seconds; a worker bounds the time of a variant itself
_ADMISSION_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a worker: seconds for a variant, bytes in all, and seconds to start."""

    seconds: float
    memory: int
    start: float = START_SECONDS


@dataclass(frozen=True, slots=True)
class Started:
    """A worker has begun a variant."""

    variant: Variant


Event = Outcome | Started


class Pool:
    """``jobs`` slots, each with at most one worker at a time. Leaving the iteration of ``events`` ends all workers."""

    def __init__(
        self,
        schedule: Schedule,
        *,
        jobs: int,
        search: Sequence[Path],
        profiles: Profiles,
        limits: Limits,
        budget: MemoryBudget,
        closures: Closures | None = None,
        twice: Collection[str] = (),
    ) -> None:
        self._schedule, self._limits, self._budget = schedule, limits, budget
        self._search, self._profiles, self._closures = search, profiles, closures
        self._twice = twice  # the identities of variants that are compiled twice
        self._events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._live: set[Worker] = set()
        self._slots = [threading.Thread(target=self._serve, daemon=True) for _ in range(jobs)]

    def events(self) -> Generator[Event, None, None]:
        """Events as they happen, until every task is done. Leaving early ends every worker at once."""
        for slot in self._slots:
            slot.start()
        try:
            running = len(self._slots)
            while running:
                event = self._events.get()
                if isinstance(event, BaseException):
                    raise event
                if event is None:
                    running -= 1
                else:
                    yield event
        finally:
            self._end()

    def _end(self) -> None:
        self._stop.set()
        with self._lock:
            live = list(self._live)
        for worker in live:
            worker.interrupt()
        for slot in self._slots:
            slot.join()

    def _serve(self) -> None:
        try:
            while not self._stop.is_set() and (task := self._schedule.first()) is not None:
                if self._budget.admit():
                    try:
                        with self._worker(task.group) as worker:
                            _WorkerRun(
                                worker,
                                task,
                                schedule=self._schedule,
                                limits=self._limits,
                                budget=self._budget,
                                twice=self._twice,
                                stop=self._stop,
                                put=self._events.put,
                            ).run()
                    finally:
                        self._schedule.leave(task.group)
                        self._budget.release()
                else:
                    self._schedule.give_back(task)
                    self._schedule.leave(task.group)
                    self._stop.wait(_ADMISSION_SECONDS)
        except BaseException as error:
            if not self._stop.is_set():
                self._events.put(error)
        finally:
            self._events.put(None)

    @contextmanager
    def _worker(self, group: Group) -> Iterator[Worker]:
        target, env, _, gpu = group
        profile = self._profiles.of(target, gpu)
        worker = Worker(
            target,
            dict(env),
            self._search,
            profile,
            memory=self._limits.memory,
            closures=self._closures,
            warm_up=self._schedule.has_more(group),
        )
        with self._lock:
            self._live.add(worker)
            if self._stop.is_set():
                worker.interrupt()
        try:
            yield worker
        finally:
            worker.kill() if self._stop.is_set() else worker.close()
            with self._lock:
                self._live.discard(worker)


class _WorkerRun:
    """One worker from its start to its end, with the one or two tasks that it has not answered yet."""

    def __init__(
        self,
        worker: Worker,
        first: Task,
        *,
        schedule: Schedule,
        limits: Limits,
        budget: MemoryBudget,
        twice: Collection[str],
        stop: threading.Event,
        put: Callable[[Event], None],
    ) -> None:
        self._worker, self._schedule, self._limits, self._budget = worker, schedule, limits, budget
        self._stop, self._put, self._twice = stop, put, twice
        self._group = first.group
        self._tasks: deque[Task] = deque([first])
        self._sent = 0
        self._served = 0
        self._leaves = False  # there is no memory for it

    def run(self) -> None:
        """Serve the group until it is empty, or the worker is lost or has grown too large."""
        if not self._start():
            return
        while self._tasks and not self._stop.is_set():
            self._send()
            try:
                reply = self._worker.receive(self._limits.seconds + _GRACE)
            except ChildLost as lost:
                self._lost(lost)
                return
            self._leaves = self._leaves or not self._fits(reply)
            self._answered(reply)
            if not self._tasks and not self._leaves and (task := self._schedule.next(self._group)) is not None:
                self._tasks.append(task)

    def _start(self) -> bool:
        """Wait for the worker. One that was killed meanwhile is tried again once; what else is wrong is wrong for all
        variants of its group."""
        try:
            self._worker.read_inputs(request_for(self._tasks[0].variant, self._limits.seconds))  # while it starts
            self._worker.ready(self._limits.start)
        except ChildLost as lost:
            if lost.killed and not self._tasks[0].fresh:
                self._schedule.give_back(self._tasks[0].again())
            elif not self._stop.is_set():
                reason = f"a worker for {self._group[0]} did not start: {lost}"
                for task in (*self._tasks, *self._schedule.drop(self._group)):
                    self._put(Failed(variant=task.variant, reason=reason, details=lost.output, code=lost.code))
            return False
        return True

    def _send(self) -> None:
        """Send one request ahead of the current one, so that the worker never waits for the next."""
        if len(self._tasks) == 1 and not self._leaves:
            ahead = self._schedule.next(self._group, ahead=True)
            if ahead is not None:
                self._tasks.append(ahead)
        while self._sent < len(self._tasks):
            variant = self._tasks[self._sent].variant
            twice = variant.identity in self._twice
            request = self._worker.with_closure(Message(request_for(variant, self._limits.seconds, twice=twice)))
            if self._sent and len(request.encode()) > _AHEAD_LIMIT:
                return
            self._worker.send(request)
            self._sent += 1
            if self._sent == 1:
                self._put(Started(self._tasks[0].variant))

    def _answered(self, reply: Message) -> None:
        task = self._tasks.popleft()
        self._sent -= 1
        self._served += 1
        if reply.header.get("temporary_lost") and not task.fresh:  # perhaps by a neighbour: once more, alone
            self._schedule.give_back(task.again())
        else:
            self._put(outcome_of(task.variant, reply, self._worker.output if "error" in reply.header else ""))
        if self._sent:
            self._put(Started(self._tasks[0].variant))

    def _lost(self, lost: ChildLost) -> None:
        """Fail the variant that was being compiled if the worker was new; else retry it. Give back the waiting one."""
        if self._stop.is_set():
            return
        task, *waiting = self._tasks
        self._schedule.give_back(*waiting)
        if self._served and not task.fresh:
            self._schedule.give_back(task.again())
        else:
            self._put(Failed(variant=task.variant, reason=str(lost), details=lost.output, code=lost.code))

    def _fits(self, reply: Message) -> bool:
        """Whether the worker may stay: it, and the largest process that it forks, must fit beside the others."""
        peak = reply.header.get("memory")
        return self._budget.measured(max(resident(self._worker.pid), peak if isinstance(peak, int) else 0))


def watch(events: Iterator[Event], started: Callable[[Variant], None]) -> Iterator[Outcome]:
    """The outcomes among the events; ``started`` is called with each variant that a worker begins."""
    for event in events:
        if isinstance(event, Started):
            started(event.variant)
        else:
            yield event
