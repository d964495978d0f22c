"""The engine and the model below it: a request's answer does not depend on what shares its steps."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from serving.engine import Answer, Busy, Engine, Stopped
from serving.model import Model, Weights
from serving.shape import SMALL
from serving.step import Part, Step
from serving.torch_kernels import TorchKernels

WEIGHTS = Weights.random(SMALL, "cpu", torch.float32)
REQUESTS = st.tuples(st.lists(st.integers(0, SMALL.vocabulary - 1), min_size=1, max_size=20), st.integers(1, 6))


def model(weights: Weights = WEIGHTS) -> Model:
    return Model(SMALL, TorchKernels(SMALL), "cpu", weights)


def answers(requests: list[tuple[list[int], int]], *, together: bool) -> list[Answer]:
    """Of an engine that gets all of them at once, or one after another."""
    engine, found = Engine(model()), list[Future[Answer]]()
    if together:
        found = [engine.submit(*request) for request in requests]  # before it starts: all wait
        engine.start()
    else:
        engine.start()
        for request in requests:
            found.append(engine.submit(*request))
            found[-1].result(60)
    engine.stop()
    return [future.result(0) for future in found]


@settings(max_examples=8)
@given(st.lists(REQUESTS, min_size=1, max_size=2 * SMALL.seats))
def test_answers_are_those_of_each_request_alone(requests: list[tuple[list[int], int]]) -> None:
    found = answers(requests, together=True)
    assert found == answers(requests, together=False)
    assert [len(answer.tokens) for answer in found] == [wanted for _, wanted in requests]


@settings(max_examples=25)
@given(st.lists(st.integers(0, SMALL.vocabulary - 1), min_size=2, max_size=SMALL.longest), st.data())
def test_a_sequence_in_parts_is_the_sequence(tokens: list[int], data: st.DataObject) -> None:
    """What the pages keep of earlier steps is what a single step would have computed."""
    cut = data.draw(st.integers(1, len(tokens) - 1))
    parts = model()
    parts.hidden(Step.of([Part(3, 0, tokens[:cut]), Part(1, 0, [5])], SMALL, "cpu"))
    found = parts.hidden(Step.of([Part(0, 0, [7, 8]), Part(3, cut, tokens[cut:])], SMALL, "cpu"))[1]
    expected = model().hidden(Step.of([Part(0, 0, tokens)], SMALL, "cpu"))[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_seat_shows_nothing_of_who_had_it_before() -> None:
    request = ([1, 2, 3], 4)
    alone = answers([request], together=False)[0]
    assert answers([([90] * 20, 6)] * SMALL.seats + [request], together=False)[-1] == alone


def test_the_mark_tells_results_apart_that_have_the_same_tokens() -> None:
    step = Step.of([Part(0, 0, [1, 2, 3])], SMALL, "cpu")
    token, mark = model().step(step)
    norm = WEIGHTS.norm.clone()
    norm[0] = torch.nextafter(norm[0], torch.tensor(9.0))
    changed = Weights(WEIGHTS.embedding, WEIGHTS.layers, norm, WEIGHTS.head)
    other_token, other_mark = model(changed).step(step)
    assert token == other_token and mark != other_mark


class Broken(Model):
    """A model whose third step fails, as after an error of the GPU."""

    def __init__(self) -> None:
        super().__init__(SMALL, TorchKernels(SMALL), "cpu", WEIGHTS)
        self.left = 2

    def step(self, step: Step) -> torch.Tensor:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("an illegal memory access")
        return super().step(step)


def test_an_error_ends_every_request_that_waits_for_it() -> None:
    engine = Engine(Broken())
    found = [engine.submit([1], 5) for _ in range(2 * SMALL.seats)]
    engine.start()
    for future in found:
        with pytest.raises(Stopped, match="illegal memory access"):
            future.result(60)
    with pytest.raises(Stopped):
        engine.submit([1], 1)
    assert "illegal" in str(engine.broken)
    engine.stop()


def test_stop_answers_what_was_taken_and_takes_nothing_more() -> None:
    engine = Engine(model())
    found = [engine.submit([1, 2], 6) for _ in range(3 * SMALL.seats)]
    engine.start()
    engine.stop()
    assert all(len(future.result(0).tokens) == 6 for future in found)
    with pytest.raises(Stopped, match="the service ends"):
        engine.submit([1], 1)


def test_a_request_that_nobody_waits_for_is_left_out() -> None:
    """The others go on, also where only such requests are left, and where the engine breaks."""
    engine = Engine(model())
    gone, stays = engine.submit([1], 3), engine.submit([2], 3)
    assert gone.cancel()
    engine.start()
    assert len(stays.result(60).tokens) == 3 and not stays.cancel()
    assert engine.load().tokens == 3
    engine.stop()
    alone = Engine(model())
    assert alone.submit([1], 3).cancel()
    alone.start()
    alone.stop()
    assert (alone.broken, alone.load().steps) == (None, 0)
    broken = Engine(Broken())
    found = [broken.submit([1], 5) for _ in range(2 * SMALL.seats)]
    assert found[-1].cancel()
    broken.start()
    broken.stop()
    assert all(isinstance(future.exception(0), Stopped) for future in found[:-1])


def test_too_many_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.engine.WAITING", 3)
    engine = Engine(model())
    found = [engine.submit([1], 1) for _ in range(3)]
    with pytest.raises(Busy, match="3 requests wait"):
        engine.submit([1], 1)
    engine.start()
    engine.stop()
    assert all(future.done() for future in found)


def test_a_long_prompt_waits_until_a_step_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not left out for those behind it, and no step is larger than it may be."""
    monkeypatch.setattr("serving.engine.TOKENS", 24)
    sizes = []
    real = Step.of.__func__  # type: ignore[attr-defined]

    def noted(cls: type[Step], parts: list[Part], *more: object) -> Step:
        sizes.append(sum(len(part.tokens) for part in parts))
        made: Step = real(cls, parts, *more)
        return made

    monkeypatch.setattr(Step, "of", classmethod(noted))
    requests = [(list(range(20)), 3), (list(range(20)), 3), ([1], 3)]
    together = answers(requests, together=True)
    assert max(sizes) <= 24
    assert together == answers(requests, together=False)


def test_it_waits_without_turning() -> None:
    engine = Engine(model())
    engine.start()
    began = time.thread_time()
    time.sleep(0.2)
    threads = threading.active_count()
    assert engine.load().steps == 0 and time.thread_time() - began < 0.1 and threads >= 2
    engine.stop()
