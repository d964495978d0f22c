"""The engine: one thread that puts the tokens of all running requests into steps, one after another."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from serving.model import Model
from serving.step import Part, Step

TOKENS = 4096  # of a step, at most
WAITING = 4096  # requests that may wait; more are refused, since they would wait for longer than anybody does


class Busy(RuntimeError):
    """Too many requests wait already."""


class Stopped(RuntimeError):
    """The engine takes no requests any more."""


@dataclass(frozen=True)
class Answer:
    """The generated tokens, and a mark made of all bits that they were computed from: equal marks, equal results."""

    tokens: tuple[int, ...]
    mark: int


@dataclass
class _Request:
    """A request on its way."""

    prompt: Sequence[int]
    wanted: int
    answer: Future[Answer] = field(default_factory=Future)
    seat: int = -1
    tokens: list[int] = field(default_factory=list)
    mark: int = 0

    def part(self) -> Part:
        """What of it goes into the next step."""
        if not self.tokens:
            return Part(self.seat, 0, self.prompt)
        return Part(self.seat, len(self.prompt) + len(self.tokens) - 1, self.tokens[-1:])

    def add(self, token: int, mark: int) -> None:
        self.tokens.append(token)
        self.mark = (self.mark * 1_000_003 + mark) % (1 << 53)  # a number that JSON keeps in every language


@dataclass(frozen=True)
class Load:
    """What the engine does now, and what it has done."""

    waiting: int
    running: int
    steps: int
    tokens: int
    seconds: float  # in steps


class Engine:
    """Takes requests from any thread. ``stop`` ends it when all that it has taken are answered."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._changed = threading.Condition()
        self._waiting: deque[_Request] = deque()
        self._running: list[_Request] = []
        self._seats = list(reversed(range(model.shape.seats)))
        self._stopping = False
        self._broken: BaseException | None = None
        self._steps, self._tokens, self._seconds = 0, 0, 0.0
        self._thread = threading.Thread(target=self._run, name="engine")

    def start(self) -> None:
        """Begin to take requests."""
        self._thread.start()

    def submit(self, prompt: Sequence[int], wanted: int) -> Future[Answer]:
        """The answer, some time later."""
        request = _Request(prompt, wanted)
        with self._changed:
            if self._broken is not None or self._stopping:
                raise Stopped(f"the engine has stopped: {self._broken or 'the service ends'}")
            if len(self._waiting) >= WAITING:
                raise Busy(f"{WAITING} requests wait already: ask again later")
            self._waiting.append(request)
            self._changed.notify()
        return request.answer

    def stop(self) -> None:
        """Answer all that was taken, then end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def broken(self) -> BaseException | None:
        """What ended the engine early. After an error of the GPU nothing in this process can be trusted."""
        return self._broken

    def load(self) -> Load:
        """Numbers of this moment."""
        with self._changed:
            return Load(len(self._waiting), len(self._running), self._steps, self._tokens, self._seconds)

    def _run(self) -> None:
        try:
            while self._admit():
                if self._running:
                    self._step()
        except BaseException as error:
            with self._changed:
                self._broken = error
                waiting = (one for one in self._waiting if one.answer.set_running_or_notify_cancel())
                left = [*self._running, *waiting]
                self._running, self._waiting = [], deque()
            for request in left:
                request.answer.set_exception(Stopped(f"the engine has stopped: {type(error).__name__}: {error}"))

    def _admit(self) -> bool:
        """Give seats to those that wait, as a step has room for; False when all is done."""
        with self._changed:
            while not self._waiting and not self._running:
                if self._stopping:
                    return False
                self._changed.wait()
            room = TOKENS - len(self._running)
            while self._waiting and self._seats and len(self._waiting[0].prompt) <= room:
                request = self._waiting.popleft()
                if not request.answer.set_running_or_notify_cancel():
                    continue  # nobody waits for it any more; from here on it cannot be cancelled
                request.seat = self._seats.pop()
                room -= len(request.prompt)
                self._running.append(request)
            return True

    def _step(self) -> None:
        began, running = time.perf_counter(), self._running
        step = Step.of([request.part() for request in running], self._model.shape, self._model.device)
        tokens, marks = self._model.step(step).tolist()
        finished = []
        for request, token, mark in zip(running, tokens, marks, strict=True):
            request.add(token, mark)
            if len(request.tokens) == request.wanted:
                finished.append(request)
        with self._changed:
            self._running = [request for request in running if len(request.tokens) < request.wanted]
            self._seats += [request.seat for request in finished]
            self._steps, self._tokens = self._steps + 1, self._tokens + len(tokens)
            self._seconds += time.perf_counter() - began
        for request in finished:  # outside the lock: callbacks of a future run here
            request.answer.set_result(Answer(tuple(request.tokens), request.mark))
