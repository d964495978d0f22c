"""Served: hits come from the caches, misses go to the library's own function, which notices nothing."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from precast.attach.compiler.dsl import Answers
from precast.attach.library import Library
from precast.attach.recordings.function_state import state_of_function
from precast.attach.seams.cached_compile import CachedMapping, cached_compile
from tests.helpers.attached import MINE


class Source:
    """Has a kernel for what its keys name, and writes down what it was asked for."""

    recording = True

    def __init__(self, *has: Mapping[str, Any]) -> None:
        self.has = has
        self.asked: list[dict[str, Any]] = []
        self.calls: list[Mapping[str, Any]] = []
        self.notes: dict[str, Any] = {}
        self.forget: list[Callable[[], None]] = []

    def on_change(self, forget: Callable[[], None]) -> None:
        self.forget.append(forget)

    def obtain(
        self,
        library: Library,
        function: str,
        arguments: Mapping[str, Any],
        *,
        call: Callable[[], Mapping[str, Any]] | None = None,
        fallback: Callable[[Answers], Any] | None = None,
        owner: type | None = None,
    ) -> Any:
        self.asked.append(dict(arguments))
        self.calls.append(call() if call else {})
        return kernel if any(repr(one) == repr(dict(arguments)) for one in self.has) else None


def kernel() -> str:
    return "kernel"


class Compiled:
    """What the library's own function compiles."""


def compiled(n: Any, dtype: Any = "bf16", *, flag: Any = False) -> Any:
    return Compiled()


@pytest.mark.parametrize(
    "ask",
    [
        lambda f: f(8),
        lambda f: f(n=8),
        lambda f: f(8, "bf16"),
        lambda f: f(dtype="bf16", n=8),
        lambda f: f(8, flag=False),
    ],
)
def test_every_form_of_a_call_is_one_key(ask: Callable[..., Any]) -> None:
    source = Source({"n": 8, "dtype": "bf16", "flag": False})
    hooked = cached_compile(source, MINE, compiled, compiled)
    assert ask(hooked) is kernel and ask(hooked) is kernel
    assert source.asked == [{"n": 8, "dtype": "bf16", "flag": False}] * 2


def memoising(function: Callable[..., Any]) -> Any:
    """A decorator as libraries write their own."""
    cache: dict[Any, Any] = {}

    @functools.wraps(function)
    def memoised(*args: Any) -> Any:
        return cache[args] if args in cache else cache.setdefault(args, function(*args))

    memoised.cache_clear = cache.clear  # type: ignore[attr-defined]
    memoised.cache_info = lambda: SimpleNamespace(currsize=len(cache))  # type: ignore[attr-defined]
    return memoised


@dataclasses.dataclass(frozen=True)
class Tile:
    rows: Any


class Shape(NamedTuple):
    rows: Any


@pytest.mark.parametrize("hold", [lambda n: (n,), lambda n: ((n, dataclasses),), Tile, Shape, lambda n: frozenset([n])])
@pytest.mark.parametrize("given", ["by position", "by name"])
def test_equal_values_of_other_types_within_an_argument_are_other_keys(hold: Callable[..., Any], given: str) -> None:
    source = Source({"n": hold(1), "dtype": "bf16", "flag": False})
    hooked = cached_compile(source, MINE, compiled, compiled)

    def ask(value: Any) -> Any:
        return hooked(value) if given == "by position" else hooked(n=value)

    for _ in range(2):
        assert ask(hold(1)) is kernel
        assert [type(ask(hold(other))) for other in (True, 1.0)] == [Compiled, Compiled]


@pytest.mark.parametrize("memo", [functools.cache, functools.lru_cache(maxsize=8), memoising])
def test_a_miss_is_asked_once_and_left_to_the_functions_own_cache(memo: Callable[..., Any]) -> None:
    source, memoised = Source(), memo(compiled)
    hooked: Any = cached_compile(source, MINE, compiled, memoised)
    first = hooked(8)
    assert hooked(8) is first
    assert len(source.asked) == 1
    hooked.cache_clear()
    assert hooked(8) is not first
    assert len(source.asked) == 2


@pytest.mark.parametrize("memo", [functools.cache, memoising])
def test_a_librarys_count_of_what_it_keeps_has_what_is_served(memo: Callable[..., Any]) -> None:
    hooked: Any = cached_compile(Source({"n": 8, "dtype": "bf16", "flag": False}), MINE, compiled, memo(compiled))
    for argument, kept in ((8, 1), (8, 1), (9, 2)):
        hooked(argument)
        assert hooked.cache_info().currsize == kept
    hooked.cache_clear()
    assert hooked.cache_info().currsize == 0


def test_a_function_that_keeps_nothing_is_called_each_time() -> None:
    source = Source()
    hooked = cached_compile(source, MINE, compiled, compiled)
    assert hooked(8) is not hooked(8)
    assert len(source.asked) == 2


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False)])
def test_equal_arguments_of_other_types_are_other_keys_unless_the_library_keeps_one(one: Any, other: Any) -> None:
    source = Source({"n": one, "dtype": "bf16", "flag": False})
    hooked = cached_compile(source, MINE, compiled, compiled)
    assert hooked(one) is kernel
    assert isinstance(hooked(other), Compiled) and isinstance(hooked(n=other), Compiled)
    kept = cached_compile(source, MINE, compiled, functools.cache(compiled))
    assert kept((one,)) is kept((other,))
    typed = cached_compile(source, MINE, compiled, functools.lru_cache(typed=True)(compiled))
    assert typed(one) is kernel is not typed(other)


def test_a_bounded_cache_forgets_as_it_does_unattached() -> None:
    source = Source({"n": 8, "dtype": "bf16", "flag": False})
    hooked = cached_compile(source, MINE, compiled, functools.lru_cache(maxsize=1)(compiled))
    for n in (8, 8, 9, 8):
        hooked(n)
    assert [one["n"] for one in source.asked] == [8, 9, 8]


class Keeping:
    """A decorator that holds its function elsewhere than in a cell."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.kept = function, dict[Any, Any]()
        functools.update_wrapper(self, function)

    def __call__(self, n: Any) -> Any:
        return self.kept[n] if n in self.kept else self.kept.setdefault(n, self.function(n))


def test_a_decorator_that_holds_its_function_elsewhere_is_looked_up_first() -> None:
    source = Source({"n": 8, "dtype": "bf16", "flag": False})
    hooked = cached_compile(source, MINE, compiled, Keeping(compiled))
    assert hooked(8) is hooked(8) is kernel and hooked(9) is hooked(9)
    assert [one["n"] for one in source.asked] == [8, 9]


@pytest.mark.parametrize(
    "memo", [lambda f: f, functools.cache, memoising, Keeping, lambda f: functools.cache(memoising(f))]
)
def test_what_is_attached_has_the_state_of_what_is_not(memo: Callable[..., Any]) -> None:
    """A worker of the build, which is not attached, writes it down as a fact."""
    expected = state_of_function(memo(compiled), whole=True)
    assert state_of_function(cached_compile(Source(), MINE, compiled, memo(compiled)), whole=True) == expected


def test_arguments_without_a_hash_are_served_too() -> None:
    source = Source({"n": [8], "dtype": "bf16", "flag": False})
    hooked = cached_compile(source, MINE, compiled, compiled)
    assert hooked([8]) is hooked([8]) is kernel
    assert isinstance(hooked([9]), Compiled) and isinstance(hooked({}), Compiled)


@pytest.mark.parametrize("memo", [functools.cache, lambda function: function])
def test_errors_are_those_of_the_function(memo: Callable[..., Any]) -> None:
    def failing(n: int) -> Any:
        raise KeyError(n)

    hooked = cached_compile(Source(), MINE, failing, memo(failing))
    with pytest.raises(KeyError, match="8"):
        hooked(8)
    with pytest.raises(TypeError, match=r"failing\(\) missing 1 required positional argument: 'n'"):
        hooked()
    with pytest.raises(TypeError, match=r"failing\(\) got an unexpected keyword argument 'm'"):
        hooked(8, m=1)


def test_another_mode_asks_again() -> None:
    source = Source()
    hooked = cached_compile(source, MINE, compiled, functools.cache(compiled))
    hooked(8)
    source.has = ({"n": 8, "dtype": "bf16", "flag": False},)
    assert hooked(8) is not kernel
    for forget in source.forget:
        forget()
    assert hooked(8) is kernel


def test_threads_get_the_kernel_of_their_key() -> None:
    source = Source(*({"n": n, "dtype": "bf16", "flag": False} for n in range(0, 40, 2)))
    hooked = cached_compile(source, MINE, compiled, compiled)
    wrong: list[int] = []

    def work() -> None:
        wrong.extend(n for n in range(40) if (hooked(n) is kernel) != (n % 2 == 0))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_hooked_function_looks_like_the_function() -> None:
    hooked: Any = cached_compile(Source(), MINE, compiled, functools.cache(compiled))
    assert (hooked.__name__, hooked.__doc__, hooked.__wrapped__) == ("compiled", compiled.__doc__, compiled)

    class Holder:
        method = cached_compile(Source(), MINE, compiled, compiled)
        static = staticmethod(method)

    assert isinstance(Holder.static(8), Compiled) and isinstance(Holder().method(8), Compiled)


def test_a_mapping_is_a_mapping() -> None:
    source, own = Source({"key": "a"}), {"b": "own"}
    source.recording = False
    mapping = CachedMapping(source, MINE, "m:f", own)
    assert "a" in mapping and mapping["a"] is mapping.get("a") is kernel
    assert mapping["b"] == mapping.get("b") == "own" and "c" not in mapping and mapping.get("c") is None
    with pytest.raises(KeyError):
        mapping["c"]
    mapping["c"] = "compiled"
    assert mapping["c"] == "compiled" and own["c"] == "compiled"
    assert [one["key"] for one in source.asked] == ["a", "c", "c", "c"]  # not what the library or the mapping has
    assert (list(mapping), len(mapping), mapping.copy()) == (["b", "c"], 2, own)
    del mapping["b"]
    mapping.clear()
    assert own == {} and "a" in mapping
    assert len(source.asked) == 5


def test_while_calls_are_wanted_every_one_is_noted() -> None:
    """Which of two calls of one key is recorded must not depend on which came first."""
    source = Source()
    mapping = CachedMapping(source, MINE, "m:f", {})
    for n in (2, 1):
        mapping.calls_of("m:f", lambda n: "key" in mapping)(n)
    assert [call["n"] for call in source.calls] == [2, 1]


def test_the_call_that_is_noted_is_the_threads_own() -> None:
    source = Source()
    mapping = CachedMapping(source, MINE, "m:f", {})
    entered, both, first_asked = threading.Event(), threading.Event(), threading.Event()

    def front_end(n: int) -> None:
        if n == 1:
            entered.set()
            assert both.wait(10)
        else:
            both.set()
            assert first_asked.wait(10)
        assert ("key", n) not in mapping
        first_asked.set()

    noted = mapping.calls_of("m:f", front_end)
    first = threading.Thread(target=noted, args=(1,))
    first.start()
    assert entered.wait(10)
    noted(2)
    first.join()
    assert [(one["key"][1], call["n"]) for one, call in zip(source.asked, source.calls, strict=True)] == [
        (1, 1),
        (2, 2),
    ]
    assert ("key", 3) not in mapping
    assert source.calls[-1] == {}
