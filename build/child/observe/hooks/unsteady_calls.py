"""Unsteady calls: the clock and randomness, which no key can cover.

Not counted are ``perf_counter`` and ``monotonic``, which measure durations, calls with an argument that replaces the
clock (``time.localtime(0)``), and generators with a seed.
"""

from __future__ import annotations

import datetime
import functools
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from precast.build.child.observe.late_import import after_import

Note = Callable[[str, str], None]

_DRAWS = (
    "betavariate", "choice", "choices", "expovariate", "gammavariate", "gauss", "getrandbits", "getstate",
    "lognormvariate", "normalvariate", "paretovariate", "randbytes", "randint", "random", "randrange", "sample",
    "shuffle", "triangular", "uniform", "vonmisesvariate", "weibullvariate",
)  # fmt: skip
_NUMPY_DRAWS = (
    "bytes", "choice", "get_state", "normal", "permutation", "rand", "randint", "randn", "random", "random_integers",
    "random_sample", "ranf", "sample", "shuffle", "standard_normal", "uniform",
)  # fmt: skip


_CLOCKS = (time.CLOCK_REALTIME, 5, 11)  # with the coarse one, and atomic time


def watch_unsteady_calls(note: Note) -> None:
    """Note each such call."""

    def watch(module: ModuleType, name: str, kind: str, when: Callable[[tuple[Any, ...]], bool] | None = None) -> None:
        original = getattr(module, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def watched(*arguments: Any, **named: Any) -> Any:
            if when is None or when(arguments):
                note(kind, f"{module.__name__}.{name}")
            return original(*arguments, **named)

        setattr(module, name, watched)

    for name in ("time", "time_ns"):
        watch(time, name, "clock")
    for name in ("localtime", "gmtime", "ctime", "asctime"):
        watch(time, name, "clock", lambda arguments: not arguments or arguments[0] is None)
    for name in ("clock_gettime", "clock_gettime_ns"):
        watch(time, name, "clock", lambda arguments: arguments[:1] != () and arguments[0] in _CLOCKS)
    watch(time, "strftime", "clock", lambda arguments: len(arguments) < 2)
    _watch_dates(note)
    for name in ("urandom", "getrandom"):
        watch(os, name, "randomness", lambda _: not _is_for_processes(sys._getframe(2)))
    watch(random, "_urandom", "randomness")
    for name in ("uuid1", "uuid4"):
        watch(uuid, name, "randomness")
    _watch_generator(random, _DRAWS, watch)
    after_import("numpy.random", lambda module: _watch_generator(module, _NUMPY_DRAWS, watch))
    _watch_new_generators(note)


def _is_for_processes(frame: FrameType) -> bool:
    """Whether ``multiprocessing`` itself draws: keys, with which its processes identify themselves."""
    return str(frame.f_globals.get("__name__", "")).startswith("multiprocessing.")


def _watch_generator(module: ModuleType, draws: tuple[str, ...], watch: Callable[..., None]) -> None:
    """A module's own generator counts until it gets a seed."""
    seeded: list[bool] = []
    seed = module.seed

    @functools.wraps(seed)
    def watched_seed(*arguments: Any, **named: Any) -> Any:
        seeded[:] = [True] if any(value is not None for value in (*arguments, *named.values())) else []
        return seed(*arguments, **named)

    module.seed = watched_seed  # type: ignore[attr-defined]
    for name in draws:
        watch(module, name, "randomness", lambda _: not seeded)


def _watch_new_generators(note: Note) -> None:
    seed = random.Random.seed

    def watched_seed(generator: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None:
            note("randomness", "random.Random")
        seed(generator, a, version)

    random.Random.seed = watched_seed  # type: ignore[method-assign, assignment]


def _watch_dates(note: Note) -> None:
    """The types are written in C and cannot be changed: each is replaced by one that makes values of the original."""
    for name, methods in (("date", ("today",)), ("datetime", ("now", "utcnow", "today"))):
        setattr(datetime, name, _watched_type(getattr(datetime, name), methods, note))


def _watched_type(original: Any, methods: tuple[str, ...], note: Note) -> Any:
    class Watching(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, original) if cls is watched else super().__instancecheck__(value)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, original) if cls is watched else super().__subclasscheck__(other)

    def make(cls: Any, *arguments: Any, **named: Any) -> Any:
        return original.__new__(original if cls is watched else cls, *arguments, **named)

    def method(name: str) -> Any:
        def call(cls: Any, *arguments: Any, **named: Any) -> Any:
            note("clock", f"datetime.{original.__name__}.{name}")
            owner = original if cls is watched else super(watched, cls)
            return getattr(owner, name)(*arguments, **named)

        return classmethod(call)

    body = {name: method(name) for name in methods}
    watched: Any = Watching(original.__name__, (original,), {**body, "__new__": make, "__module__": "datetime"})
    return watched
