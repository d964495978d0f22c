"""The order of what is done on a second stream, and beside other work, with a queue in place of a stream of a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from precast.kernels.authoring.declare import Declaration
from precast.measure.checks import guarded, runs, scenarios, streams
from precast.measure.checks import verify as module


class Queue:
    """A stream that is busy until the end of its block: what is put on it waits; all else is done at once."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Any]] = []
        self.current = self.beside = False

    @contextlib.contextmanager
    def second_stream(self, device: Any) -> Iterator[None]:
        self.current = True
        yield
        self.current = False
        for work in self.waiting:
            work()
        self.waiting.clear()

    @contextlib.contextmanager
    def other_work(self, device: Any) -> Iterator[None]:
        self.beside = True
        yield
        self.beside = False

    def put(self, work: Callable[[], Any]) -> None:
        if self.current:
            self.waiting.append(work)
        else:
            work()


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    plan = scenarios.scenarios
    monkeypatch.setattr(module, "scenarios", lambda elements, **facts: plan(elements, **{**facts, "gpu": True}))
    monkeypatch.setattr(runs, "fill", lambda view, values: queue.put(lambda: guarded.fill(view, values)))
    monkeypatch.setattr(streams, "second_stream", queue.second_stream)
    monkeypatch.setattr(streams, "other_work", queue.other_work)
    return queue


def inputs(config: Any, problem: Mapping[str, int], *, device: Any, seed: int) -> dict[str, Any]:
    places = torch.tensor([2, 0, 1], device=device)
    return {"x": torch.arange(3.0), "sum": torch.ones(3), "places": places, "out": torch.empty(3)}


DECLARATION = Declaration(
    op="test.gather",
    keys=(),
    problems=lambda config: [{"n": 3}],
    inputs=inputs,
    outputs=("out", "sum"),
    in_place=("sum",),
    reference=lambda config, v: {"out": v["x"].double()[v["places"]], "sum": v["sum"].double() + v["x"].double()},
)


def gather(x: Any, total: Any, places: Any, out: Any) -> None:
    out.copy_(x[places])  # which are always numbers of elements
    total.add_(x)


def test_what_is_on_the_callers_stream_is_right(queue: Queue) -> None:
    seen = []

    def launch(*arguments: Any) -> None:
        seen.append((queue.current, queue.beside))
        queue.put(lambda: gather(*arguments))

    checks = list(module.verify(launch, DECLARATION, {}, device="cpu"))
    assert not [str(check) for check in checks if not check.passed]
    assert seen[:4] == [(False, False), (False, False), (False, True), (True, False)]


def test_what_is_on_another_stream_reads_nan(queue: Queue) -> None:
    checks = list(module.verify(gather, DECLARATION, {}, device="cpu"))
    wrong = [check for check in checks if not check.passed]
    assert {check.scenario for check in wrong} == {"on a second stream"}
    assert {check.output for check in wrong} == {"out", "sum"}
