"""Recognition of compile functions: what calls the compiler is found, and nothing else is touched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from precast.attach.seams.compile_sites import compiles, function_of

cute: Any = None
cute_ext: Any = None
cutlass: Any = None


def calls() -> Any:
    return cute.compile(8)


def with_options() -> Any:
    return cute.compile["--opt"](8)


def calls_experimental() -> Any:
    return cute_ext.compile(8)


def by_full_name() -> Any:
    return cutlass.cute.compile(8)


def imported_inside() -> Any:
    cute = cutlass.cute
    kernel = cute.kernel
    return cute.compile(kernel, 8)


def monitor() -> None:
    cute.compile = print(cute.compile)


def another_compile() -> Any:
    return cute.kernel(cutlass.compile(8))


@pytest.mark.parametrize("function", [calls, with_options, calls_experimental, by_full_name, imported_inside])
def test_what_calls_the_compiler_is_found(function: Any) -> None:
    assert compiles(function)


@pytest.mark.parametrize("function", [monitor, another_compile])
def test_what_only_names_it_is_not(function: Any) -> None:
    assert not compiles(function)


class Everything:
    """Answers to every attribute, as lazy modules and mocks do, and counts how often."""

    touched = 0

    def __getattr__(self, name: str) -> Everything:
        type(self).touched += 1
        return self

    def __call__(self, *args: Any) -> Everything:
        return self


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(function)(lambda *args: function(*args))


def test_only_functions_and_their_caches_are_looked_at() -> None:
    assert function_of(calls) is calls
    assert function_of(functools.cache(calls)) is calls
    assert function_of(functools.lru_cache(maxsize=3)(decorated(calls))) is calls
    assert function_of(Everything()) is None and not Everything.touched
    for value in (functools.partial(calls), Everything, len, "text", None, functools.cache(len)):
        assert function_of(value) is None


def test_a_circle_of_wrappers_ends() -> None:
    one, two = decorated(calls), decorated(calls)
    vars(one)["__wrapped__"], vars(two)["__wrapped__"] = two, one
    assert function_of(one) is None
