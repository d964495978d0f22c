"""Arguments of a compile function that it only passes to the kernel: the compiler uses their types, not their values.

A library may give its compile function the pointers, sizes and stream of the call at hand, and keep the kernel by its
other arguments. Then a kernel for one call serves the next.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from precast.attach.seams.argument_identity import NoIdentity, identity_of


class NoKey(Exception):
    """A call with a tensor has no key. An answer to it is not kept: that would keep the tensor."""


def typical(value: Any) -> Any:
    """A value that stands for all of its type, where only the type counts.

    >>> typical(300), typical(0.5), typical(True), typical(None)
    (1, 1.0, True, None)
    """
    return type(value)(1) if type(value) in (int, float) else value


class TypeOnlyCompile:
    """A compile function that passes some arguments on to the kernel: its answers are kept by the other arguments."""

    def __init__(
        self,
        type_only: Collection[str],
        signature: inspect.Signature,
        look_up: Callable[..., Any],
        original: Callable[..., Any],
    ) -> None:
        self._type_only, self._signature, self._look_up, self._original = type_only, signature, look_up, original
        self._answers: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError:
            return self._original(*args, **kwargs)  # reports what is wrong with the call
        key = None
        try:
            key = tuple((n, identity_of(v), v) for n, v in bound.items() if n not in self._type_only)
            kernel = self._answers[key]
        except KeyError:
            kernel = self._answer(key, args, kwargs)
        except (TypeError, NoIdentity):  # an argument that has no hash, or that may change
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
        """Forget every answer."""
        self._answers.clear()
