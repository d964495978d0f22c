"""Compile functions that keep what they compile themselves, in a mapping of their module.

A library may give its compile function the pointers, sizes and stream of the call at hand, and keep the kernel by its
other arguments. Then a kernel for one call serves the next: the compiler uses their types, not their values.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Collection, Mapping, MutableMapping
from types import FunctionType
from typing import Any


class NoKey(Exception):
    """A call with a tensor has no key. An answer to it is not kept: that would keep the tensor."""


def keeps_kernels(function: Any) -> bool:
    """Whether a function's code sets a global, or stores into a mapping and names one of its module, of a class or of a
    function, as it does to keep what it compiles.

    >>> keeps_kernels(keeps_kernels)
    False
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    steps = {step.opname for step in dis.get_instructions(code)}
    named = [function.__globals__.get(name) for name in code.co_names] + [getattr(function, "__self__", None)]
    holders = [vars(value) for value in named if isinstance(value, (type, FunctionType))]
    named += [holder.get(name) for holder in holders for name in code.co_names]
    kept = any(issubclass(type(value), MutableMapping) for value in named)
    return "STORE_GLOBAL" in steps or (kept and "STORE_SUBSCR" in steps)


def typical(value: Any) -> Any:
    """A value that stands for all of its type, where only the type counts.

    >>> typical(300), typical(0.5), typical(True), typical(None)
    (1, 1.0, True, None)
    """
    return type(value)(1) if type(value) in (int, float) else value


class Arguments:
    """The arguments of calls of a function, by name, with its defaults as they are now: a program may replace them.

    >>> def scale(n, by=2): ...
    >>> Arguments(scale).of((1,), {})
    {'n': 1, 'by': 2}
    """

    def __init__(self, function: Any) -> None:
        self._function, self._defaults, self._signature = function, _defaults(function), inspect.signature(function)

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call; raises TypeError for a wrong one."""
        defaults = _defaults(self._function)
        if any(now is not before for now, before in zip(defaults, self._defaults, strict=True)):
            self._defaults, self._signature = defaults, inspect.signature(self._function)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments


def _defaults(function: Any) -> tuple[object, object]:
    return getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)


class KeptCompile:
    """A compile function whose answers are kept as the library keeps its kernels: by all arguments but those that it
    passes on to the kernel."""

    def __init__(
        self,
        type_only: Collection[str],
        arguments: Arguments,
        look_up: Callable[..., Any],
        original: Callable[..., Any],
    ) -> None:
        self._type_only, self._arguments, self._look_up, self._original = type_only, arguments, look_up, original
        self._answers: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            arguments = self._arguments.of(args, kwargs)
        except TypeError:
            return self._original(*args, **kwargs)  # reports what is wrong with the call
        key = tuple((n, v) for n, v in arguments.items() if n not in self._type_only)
        try:
            kernel = self._answers[key]
        except KeyError:
            kernel = self._answer(key, args, kwargs)
        except TypeError:  # an argument that has no hash
            kernel = self._answer(None, args, kwargs)
        return self._original(*args, **kwargs) if kernel is None else kernel

    def _answer(self, key: Any, args: Any, kwargs: Any) -> Any:
        try:
            kernel = self._look_up(*args, **kwargs)
        except NoKey:
            return None
        if key is not None:
            self._answers[key] = kernel
        return kernel

    def cache_clear(self) -> None:
        """Forget every answer, and what the function itself keeps where that can be cleared."""
        self._answers.clear()
        getattr(self._original, "cache_clear", int)()
