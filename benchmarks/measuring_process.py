"""Processes that time what may fault or hang: each replies to requests, in a time limit, and is lost alone.

A fault on a GPU leaves its process without one, and a failed capture spoils the later ones. So whoever measures does it
in a process of its own, by name, and a lost one is started again with the next request to it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

START = 120.0  # seconds: importing torch and starting CUDA


@dataclass(frozen=True, slots=True)
class Failure:
    """The reply of a process that cannot measure any more. ``own``: the reason is what is measured, not a peer."""

    reason: str
    own: bool = False


class Lost(Exception):
    """A request without a result. ``hung`` if it took too long; ``own`` as in ``Failure``."""

    def __init__(self, reason: str, *, hung: bool = False, own: bool = False) -> None:
        super().__init__(reason)
        self.hung, self.own = hung, own


class MeasuringProcess:
    """A process that runs ``serve``, which sends None when it is ready, and then a reply to each request.

    ``serve`` is a function of a module, and gets the other end of the connection.
    """

    def __init__(self, serve: Callable[[Connection], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other,), daemon=True)
        self._process.start()
        other.close()
        self._ready = False

    def ready(self, seconds: float = START) -> None:
        """Wait until it is; raises Lost."""
        if not self._ready:
            self._receive(seconds)
            self._ready = True

    def reply(self, request: Any, seconds: float) -> Any:
        """What it replies to a request; raises Lost, and then the process has ended."""
        self.ready()
        try:
            self._connection.send(request)
        except OSError:
            self.end()
            raise Lost(f"its process has ended ({self._process.exitcode})") from None
        return self._receive(seconds)

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def _receive(self, seconds: float) -> Any:
        try:
            if not self._connection.poll(seconds):
                self.end()
                raise Lost(f"no result in {seconds:g} s", hung=True)
            found = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join(5)
            code = self._process.exitcode
            self.end()
            raise Lost(f"its process ended with {code}") from None
        if isinstance(found, Failure):
            self.end()
            raise Lost(found.reason, own=found.own)
        return found


class Processes:
    """Such processes by name: each is started with its first request, or before by ``start``."""

    def __init__(self, serve: Callable[[Connection], None], seconds: float) -> None:
        self._serve, self._seconds = serve, seconds
        self._by_name: dict[str, MeasuringProcess] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._by_name.values():
            process.end()

    def start(self, names: tuple[str, ...]) -> None:
        """Start several at once, and wait for all of them: what follows is timed, and they would take its time."""
        for name in names:
            self._by_name[name] = MeasuringProcess(self._serve)
        for name in names:
            try:
                self._by_name[name].ready()
            except Lost:  # its first request starts another one, and has the reason
                del self._by_name[name]

    def reply(self, name: str, request: Any) -> Any:
        """The reply of one of them to a request; raises Lost."""
        process = self._by_name.get(name)
        if process is None:
            process = self._by_name[name] = MeasuringProcess(self._serve)
        try:
            return process.reply(request, self._seconds)
        except Lost:
            del self._by_name[name]
            raise
