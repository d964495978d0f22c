"""Arguments of a compile function that it only hands on: the compiler takes their types in, and no value.

A library may give its compile function the pointers, sizes and stream of the call at hand, and keep the kernel by its
other arguments. Then a kernel for one call serves the next.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any


class NoKey(Exception):
    """A call with a tensor has no key. An answer to it is not kept: that would keep the tensor."""


def typical(value: Any) -> Any:
    """A value that stands for all of its type, where only the type counts.

    >>> typical(300), typical(0.5), typical(True), typical(None)
    (1, 1.0, True, None)
    """
    return type(value)(1) if type(value) in (int, float) else value


class KeptWithout:
    """A compile function some of whose arguments are handed on to the kernel: the answer is kept by the others."""

    def __init__(
        self,
        passed: Collection[str],
        signature: inspect.Signature,
        ask: Callable[..., Any],
        original: Callable[..., Any],
    ) -> None:
        self._passed, self._signature, self._ask, self._original = passed, signature, ask, original
        self._known: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
            key = tuple((n, type(v), v) for n, v in bound.items() if n not in self._passed)
        except TypeError:
            return self._original(*args, **kwargs)  # says what is wrong with the call
        try:
            kernel = self._known[key]
        except KeyError:
            kernel = self._asked(key, args, kwargs)
        except TypeError:  # an argument that has no hash
            kernel = self._asked(None, args, kwargs)
        return self._original(*args, **kwargs) if kernel is None else kernel

    def _asked(self, key: Any, args: Any, kwargs: Any) -> Any:
        try:
            kernel = self._ask(*args, **kwargs)
        except NoKey:
            return None
        if key is not None:
            self._known[key] = kernel
        return kernel

    def cache_clear(self) -> None:
        """Forget every answer."""
        self._known.clear()
