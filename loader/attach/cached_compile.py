"""Served: a library's compile function, or its mapping of kernels, that asks the caches first."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import Any

from precast.loader.attach.argument_types import Types, types_within
from precast.loader.attach.compiler.dsl import Answers, answered_by, answering, asking, begin_asking, end_asking
from precast.loader.attach.library import KernelSource, Library
from precast.loader.attach.type_only_arguments import KeptWithout, NoKey, typical
from precast.loader.contract.recordings.keys import encode


def served(
    attachment: KernelSource,
    library: Library,
    function: Callable[..., Any],
    original: Callable[..., Any],
    passed: Collection[str] = (),
) -> Callable[..., Any]:
    """A compile function that asks the caches first. ``original`` is called on a miss; what it keeps stays its own.

    The answer to a key is kept, a miss too. Equal arguments of different types are different keys, and so are equal
    values of different types within them. Where the library keeps its kernels in a ``functools.cache``, values within
    arguments share an entry here as they do there. Of ``passed`` parameters only a number's type is part of the key.
    """
    place = f"{function.__module__}:{function.__qualname__}"
    signature = inspect.signature(function)
    compiled = _asked_for(original) if attachment.noting else original

    def ask(*args: Any, **kwargs: Any) -> Any:
        if answering():  # a function that calls this one is run around its kernels: ours are among them
            return function(*args, **kwargs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return None  # the function itself says what is wrong with the call
        bound.apply_defaults()
        arguments = {name: typical(one) if name in passed else one for name, one in bound.arguments.items()}
        kernel = attachment.obtain(library, place, arguments, own=functools.partial(_own, function, args, kwargs))
        if kernel is None and any(hasattr(type(one), "__dlpack__") for one in arguments.values()):
            raise NoKey
        return kernel

    def answer(*args: Any, **kwargs: Any) -> Any:
        kernel = _asked(ask, args, kwargs)
        return compiled(*args, **kwargs) if kernel is None else kernel

    hooked: Any
    info: Any = None
    if passed:  # the values of a call are no key, and must not be kept
        hooked = KeptWithout(frozenset(passed), signature, ask, compiled)
        clear_known = hooked.cache_clear
    elif isinstance(original, functools._lru_cache_wrapper):  # one look-up then serves both
        hooked = functools.lru_cache(maxsize=None, typed=True)(answer)
        clear_known = hooked.cache_clear
    else:
        hooked, clear_known, info = _remembering(ask, compiled)

    def clear() -> None:
        clear_known()
        if hasattr(original, "cache_clear"):
            original.cache_clear()

    attachment.on_change(clear_known)
    functools.update_wrapper(hooked, original)
    vars(hooked).update(cache_clear=clear, __wrapped__=function)
    if info is not None and hasattr(original, "cache_info"):
        vars(hooked)["cache_info"] = info  # the library's own counts what it compiled alone
    result: Callable[..., Any] = hooked
    return result


def _asked(ask: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    try:
        return ask(*args, **kwargs)
    except NoKey:
        return None


def _asked_for(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which a seam asked for what it compiles."""

    def compiled(*args: Any, **kwargs: Any) -> Any:
        with asking():
            return function(*args, **kwargs)

    return compiled


def _remembering(
    ask: Callable[..., Any], original: Callable[..., Any]
) -> tuple[Any, Callable[[], None], Callable[[], Any]]:
    """A function that asks once for each key and calls ``original`` on a miss; what makes it forget the answers, and
    what counts them."""

    @functools.lru_cache(maxsize=None, typed=True)
    def known(*args: Any, **kwargs: Any) -> tuple[Any, Types | None, Any]:
        types = types_within(args, kwargs)
        return ask(*args, **kwargs), types, types and types(args, kwargs)

    others: dict[Any, Any] = {}  # answers to keys that equal one in ``known``, with other types within

    def hooked(*args: Any, **kwargs: Any) -> Any:
        try:
            kernel, types, expected = known(*args, **kwargs)
            if types is not None and types(args, kwargs) != expected:
                key = (args, tuple(kwargs.items()), repr(types(args, kwargs)))
                if key not in others:
                    others[key] = ask(*args, **kwargs)
                kernel = others[key]
        except NoKey:
            kernel = None
        except TypeError:  # an argument that has no hash
            kernel = _asked(ask, args, kwargs)
        return original(*args, **kwargs) if kernel is None else kernel

    def clear() -> None:
        known.cache_clear()
        others.clear()

    return hooked, clear, known.cache_info


def _own(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], answers: Answers) -> Any:
    with answered_by(answers):
        return function(*args, **kwargs)


class ServedMapping(MutableMapping[Any, Any]):
    """A library's mapping from its keys to compiled kernels, which looks into the caches first."""

    def __init__(self, attachment: KernelSource, library: Library, place: str, original: Any) -> None:
        self._attachment, self._library, self._place, self._original = attachment, library, place, original
        self._known: dict[Any, Any] = {}
        self._calls = threading.local()
        attachment.on_change(self._known.clear)

    def __contains__(self, key: Any) -> bool:
        return self._find(key) is not None or key in self._original

    def __getitem__(self, key: Any) -> Any:
        kernel = self._find(key)
        return self._original[key] if kernel is None else kernel

    def __setitem__(self, key: Any, compiled: Any) -> None:
        self._end_asking()
        self._original[key] = compiled

    def __delitem__(self, key: Any) -> None:
        del self._original[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._original)

    def __len__(self) -> int:
        return len(self._original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def clear(self) -> None:
        """Forget everything, as the library's own mapping does."""
        self._known.clear()
        self._original.clear()

    def _find(self, key: Any) -> Any:
        """A cache's kernel, None where there is none; the answer is kept.

        While calls are wanted, every one is noted: which of them is kept must not depend on which came first.
        """
        if key in self._known and not self._attachment.noting:
            return self._known[key]
        found = self._attachment.obtain(self._library, self._place, {"key": key}, call=self._call)
        self._known[key] = found
        inside = getattr(self._calls, "arguments", None) is not None
        if found is None and inside and not getattr(self._calls, "asking", False):
            self._calls.asking = True  # until the library files what it compiles, or its call ends
            begin_asking()
        return found

    def _end_asking(self) -> None:
        if getattr(self._calls, "asking", False):
            self._calls.asking = False
            end_asking()

    def noting_calls(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose arguments are known while it runs."""
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = getattr(self._calls, "arguments", None)
            self._calls.arguments = signature.bind(*args, **kwargs).arguments
            try:
                return function(*args, **kwargs)
            finally:
                self._calls.arguments = before
                self._end_asking()

        return call

    def _call(self) -> Mapping[str, Any]:
        arguments = getattr(self._calls, "arguments", None) or {}
        return {name: encode(value, tensors=True) for name, value in arguments.items()}
