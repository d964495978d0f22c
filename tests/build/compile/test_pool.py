"""Who is blamed when a worker is lost, and who is not: with workers that are no processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from precast.build.compile import pool as pools
from precast.build.compile.outcome import Failed
from precast.build.compile.pool import Limits, Pool, Started
from precast.build.compile.schedule import Schedule, Task
from precast.build.gpu.profile import Profiles
from precast.build.ipc.capacity import MemoryBudget
from precast.build.ipc.child_process import ChildLost
from precast.build.ipc.message import Message
from precast.loader.contract.format.target import Target
from tests.helpers.variants import variant

Answer = Callable[["FakeWorker", int], Message]
SMALL = 100 << 20


class FakeWorker:
    """Answers by a function of the config's number; keeps what it was asked."""

    answer: Answer
    made: list[FakeWorker]
    size = SMALL

    def __init__(
        self,
        target: Target,
        env: Mapping[str, str],
        search: Sequence[Path],
        profile: object,
        *,
        memory: int,
        closures: object,
        warm_up: bool,
    ) -> None:
        self.pid = len(self.made) + 1
        self.sent: list[int] = []
        self.answered = 0
        self.ended = threading.Event()
        self.made.append(self)

    def read_inputs(self, request: object) -> None:
        pass

    def ready(self, seconds: float) -> None:
        pass

    def with_closure(self, request: Message) -> Message:
        return request

    def send(self, request: Message) -> None:
        self.sent.append(request.header["config"]["n"])

    def receive(self, seconds: float) -> Message:
        number = self.sent[self.answered]
        reply = type(self).answer(self, number)
        self.answered += 1
        return reply

    @property
    def output(self) -> str:
        return f"printed while {self.sent[self.answered - 1]}"

    def close(self) -> None:
        self.ended.set()

    kill = interrupt = close


def refusal(self: FakeWorker, number: int) -> Message:
    """The simplest answer: the function raised an error. For the pool that is a variant that is done."""
    return Message({"error": f"done {number}"})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[int, Failed], list[FakeWorker]]]:
    def go(
        answer: Answer, count: int, *, jobs: int = 1, budget: MemoryBudget | None = None, size: int = SMALL
    ) -> tuple[dict[int, Failed], list[FakeWorker]]:
        made: list[FakeWorker] = []
        kind = type("Fake", (FakeWorker,), {"answer": answer, "made": made})
        monkeypatch.setattr(pools, "Worker", kind)
        monkeypatch.setattr(pools, "resident", lambda pid: size * made[pid - 1].answered or SMALL)
        schedule = Schedule([Task(variant(n), 10.0) for n in range(count)])
        limits = Limits(seconds=1, memory=1 << 30)
        pool = Pool(
            schedule, jobs=jobs, search=(), profiles=Profiles(), limits=limits, budget=budget or MemoryBudget(None)
        )
        outcomes: dict[int, Failed] = {}
        for event in pool.events():
            if not isinstance(event, Started):
                assert isinstance(event, Failed)
                number: Any = event.variant.config["n"]
                assert number not in outcomes, "told twice"
                outcomes[number] = event
        assert sorted(outcomes) == list(range(count))
        assert all(w.ended.is_set() for w in made)
        return outcomes, made

    return go


Run = Callable[..., "tuple[dict[int, Failed], list[FakeWorker]]"]


def test_a_worker_has_its_next_request_before_it_answers(run: Run) -> None:
    waiting: list[int] = []

    def answer(self: FakeWorker, number: int) -> Message:
        waiting.append(len(self.sent) - self.answered)
        return refusal(self, number)

    run(answer, 5)
    assert waiting == [2, 2, 2, 2, 1]


def test_a_variant_lost_with_a_used_worker_is_tried_again_and_not_blamed(run: Run) -> None:
    def answer(self: FakeWorker, number: int) -> Message:
        if number == 2 and self.answered:
            raise ChildLost("it was sick already", "")
        return refusal(self, number)

    outcomes, made = run(answer, 5)
    assert [o.reason for _, o in sorted(outcomes.items())] == [f"done {n}" for n in range(5)]
    assert [w.sent for w in made] == [[0, 1, 2, 3], [2, 3, 4]]


def test_a_variant_that_ends_a_fresh_worker_is_blamed_once_and_alone(run: Run) -> None:
    def answer(self: FakeWorker, number: int) -> Message:
        if number in (0, 2):
            raise ChildLost(f"killed by {number}", "last words")
        return refusal(self, number)

    outcomes, made = run(answer, 5)
    assert {n: o.reason for n, o in outcomes.items() if "done" not in o.reason} == {0: "killed by 0", 2: "killed by 2"}
    assert outcomes[2].details == "last words"
    assert [w.sent[: w.answered + 1] for w in made] == [[0], [1, 2], [2], [3, 4]]


def test_what_was_printed_goes_to_who_printed_it(run: Run) -> None:
    outcomes, _ = run(refusal, 4)
    assert [o.details for _, o in sorted(outcomes.items())] == [f"printed while {n}" for n in range(4)]


def test_a_worker_whose_variants_do_not_fit_beside_others_makes_way(run: Run) -> None:
    def answer(self: FakeWorker, number: int) -> Message:
        time.sleep(0.01)
        live.append(sum(not worker.ended.is_set() for worker in self.made))
        return Message({"error": f"done {number}", "memory": 1500 << 20})

    live: list[int] = []
    run(answer, 20, jobs=2, budget=MemoryBudget(2 << 30))
    assert max(live) == 2 and live[-5:] == [1] * 5


def test_workers_that_do_not_fit_together_leave_but_one(run: Run) -> None:
    _, made = run(refusal, 20, jobs=3, budget=MemoryBudget(2 << 30), size=900 << 20)
    assert made


def test_a_compiler_that_does_not_start_is_told_for_every_variant(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def ready(self: FakeWorker, seconds: float) -> None:
        raise ChildLost("no module named cutlass", "trace")

    monkeypatch.setattr(FakeWorker, "ready", ready)
    outcomes, made = run(refusal, 4)
    assert len(made) == 1
    assert all(o.reason == "a worker for sm_90a did not start: no module named cutlass" for o in outcomes.values())


@pytest.mark.parametrize(("killed", "failing"), [(1, 0), (2, 3)])
def test_a_worker_that_is_killed_while_it_starts_is_tried_again_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, killed: int, failing: int
) -> None:
    def ready(worker: FakeWorker, seconds: float) -> None:
        if worker.pid <= killed:
            raise ChildLost("the worker was ended by SIGKILL", "", killed=True)

    monkeypatch.setattr(FakeWorker, "ready", ready)
    outcomes, made = run(refusal, 3)
    assert len([o for o in outcomes.values() if "did not start" in o.reason]) == failing
    assert len(made) == 2


def test_leaving_early_ends_every_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakeWorker] = []

    def answer(self: FakeWorker, number: int) -> Message:
        if number == 0:
            return refusal(self, number)
        assert self.ended.wait(600)
        raise ChildLost("interrupted", "")

    monkeypatch.setattr(pools, "Worker", type("Fake", (FakeWorker,), {"answer": answer, "made": made}))
    monkeypatch.setattr(pools, "resident", lambda pid: SMALL)
    schedule = Schedule([Task(variant(n), 10.0) for n in range(8)])
    pool = Pool(
        schedule,
        jobs=3,
        search=(),
        profiles=Profiles(),
        limits=Limits(seconds=1, memory=1 << 30),
        budget=MemoryBudget(None),
    )
    events = pool.events()
    while isinstance(next(events), Started):
        pass
    events.close()  # which waits for no answer
    assert all(w.ended.is_set() for w in made)
