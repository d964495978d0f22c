"""What attach adds to a use of a kernel that its library keeps, and what one look-up compares.

The library's own cache stands around the look-up, so a use costs what it costs in an unattached program.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from loader_benchmark import Result

from precast.attach.fact_check import FactCheck
from precast.attach.library import Library
from precast.attach.recordings.kernel_facts import Globals, KernelFacts
from precast.attach.seams.cached_compile import CachedMapping, cached_compile

LIBRARY = Library(name="one", distribution="zstandard", package="zstandard", seams=())
CALLS, ROUNDS = 20_000, 15
MODULES = ("json", "json.decoder", "ast", "dataclasses", "inspect", "functools")
KEY = ("bfloat16", 4096, (128, 64), True)


def compile_for(dtype: str, hidden: int, tile: tuple[int, int], causal: bool) -> object:
    return compile_for


def keeping(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that keeps what a function returns, as libraries write it."""
    kept: dict[Any, Any] = {}

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        if args not in kept:
            kept[args] = function(*args)
        return kept[args]

    wrapper.cache_clear = kept.clear  # type: ignore[attr-defined]
    return wrapper


def run() -> Iterator[Result]:
    """Each in turn without and with attach, the least of some rounds."""
    source: Any = SimpleNamespace(recording=False, on_change=lambda forget: None, obtain=lambda *_, **__: print)
    plain, mapping = {KEY: print}, CachedMapping(source, LIBRARY, "m:f", {})
    pairs: dict[str, tuple[Callable[..., Any], Callable[..., Any], float | None]] = {
        "functools.cache": (functools.cache(compile_for), _attached(source, functools.cache(compile_for)), 0.2),
        "a decorator that keeps": (keeping(compile_for), _attached(source, keeping(compile_for)), 0.2),
        "a mapping": (lambda *key: plain[key], lambda *key: mapping[key], None),
    }
    for what, (unattached, attached, at_most) in pairs.items():
        times = [(_seconds(unattached), _seconds(attached)) for _ in range(ROUNDS)]
        before, after = (min(column) * 1e6 for column in zip(*times, strict=True))
        yield Result(what=f"a use through {what}, unattached", value=before, unit="us")
        yield Result(what=f"a use through {what}, added by attach", value=after - before, unit="us", at_most=at_most)
    facts = KernelFacts(variables={"ACME_TILE": None}, packages={}, modules={}, globals=dict(map(_globals, MODULES)))
    check = FactCheck()
    least = min(_seconds(lambda *_: check.difference(facts), 50) for _ in range(ROUNDS))
    names = sum(len(some.names) for some in facts.globals.values())
    yield Result(what=f"comparing the {names} functions of a kernel at a look-up", value=least * 1e6, unit="us")


def _attached(source: Any, original: Any) -> Any:
    return cached_compile(source, LIBRARY, compile_for, original)


def _globals(module: str) -> tuple[str, Globals]:
    values = vars(__import__(module, fromlist=["*"]))
    names = tuple(f"{name}()" for name, value in values.items() if callable(value) and hasattr(value, "__code__"))
    return module, Globals.of(names, values)


def _seconds(call: Callable[..., Any], count: int = CALLS) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call(*KEY)
    return (time.perf_counter() - start) / count
