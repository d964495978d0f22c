"""A library's compile function, or its mapping of compiled kernels, that looks a kernel up in the caches first."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

from precast.attach.compiler.dsl import (
    Answers,
    answered_by,
    answering,
    begin_tracked_compile,
    end_tracked_compile,
    tracked_compile,
)
from precast.attach.library import KernelSource, Library
from precast.attach.recordings.keys import encode
from precast.attach.seams.argument_identity import Identity, NoIdentity, identity_of, identity_within
from precast.attach.seams.type_only_arguments import NoKey, TypeOnlyCompile, typical


def cached_compile(
    attachment: KernelSource,
    library: Library,
    function: Callable[..., Any],
    original: Callable[..., Any],
    type_only: Collection[str] = (),
    *,
    devices: Collection[str] = (),
    path: str | None = None,
) -> Callable[..., Any]:
    """A compile function that looks its kernels up in the caches first, and calls ``original`` on a miss.

    The answer to a key is kept, a miss too. Equal arguments of different types are different keys, and so are all
    arguments that ``argument_identity`` distinguishes, also where the library itself mistakes one for another.
    For ``type_only`` parameters, only a number's type is in the key; of ``devices``, a device's number is not. ``path``
    is where the function is found, if that is not its own name.
    """
    path = path or f"{function.__module__}:{function.__qualname__}"
    signature = inspect.signature(function)
    compile_uncached = tracking(original) if attachment.recording else original

    def look_up(*args: Any, **kwargs: Any) -> Any:
        if answering():  # a function that calls this one is run around its kernels: ours are among them
            return function(*args, **kwargs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return None  # the function itself reports what is wrong with the call
        bound.apply_defaults()
        arguments = {name: typical(value) if name in type_only else value for name, value in bound.arguments.items()}
        arguments |= {name: 0 for name in devices if type(arguments.get(name)) is int}
        fallback = functools.partial(_run_around, function, args, kwargs)
        kernel = attachment.obtain(library, path, arguments, fallback=fallback)
        if kernel is None and any(hasattr(type(value), "__dlpack__") for value in arguments.values()):
            raise NoKey
        return kernel

    hooked: Any
    info: Any = None
    if type_only:  # the values of a call are not a key, and must not be kept
        hooked = TypeOnlyCompile(frozenset(type_only), signature, look_up, compile_uncached)
        clear_answers = hooked.cache_clear
    else:
        hooked, clear_answers, info = _memoised(look_up, compile_uncached)

    def clear() -> None:
        clear_answers()
        if hasattr(original, "cache_clear"):
            original.cache_clear()

    attachment.on_change(clear_answers)
    functools.update_wrapper(hooked, original)
    vars(hooked).update(cache_clear=clear, __wrapped__=function)
    if info is not None and hasattr(original, "cache_info"):
        vars(hooked)["cache_info"] = info  # the library's own counts only what it compiled
    result: Callable[..., Any] = hooked
    return result


def _none_without_key(look_up: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    try:
        return look_up(*args, **kwargs)
    except NoKey:
        return None


def tracking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; what it compiles is not reported as untracked."""

    def compiled(*args: Any, **kwargs: Any) -> Any:
        with tracked_compile():
            return function(*args, **kwargs)

    return compiled


def _memoised(
    look_up: Callable[..., Any], original: Callable[..., Any]
) -> tuple[Any, Callable[[], None], Callable[[], Any]]:
    """A function that looks each key up once and calls ``original`` on a miss; a function that clears the answers, and
    one that counts them."""

    @functools.lru_cache(maxsize=None, typed=True)
    def answer(*args: Any, **kwargs: Any) -> tuple[Any, Identity | None, Any]:
        identity = identity_within(args, kwargs)
        expected = identity and identity(args, kwargs)
        return look_up(*args, **kwargs), identity, expected

    others: dict[Any, Any] = {}  # answers to keys that equal one in ``answer`` and are different

    def hooked(*args: Any, **kwargs: Any) -> Any:
        try:
            kernel, identity, expected = answer(*args, **kwargs)
            if identity is not None and (actual := identity(args, kwargs)) != expected:
                key = (args, tuple(kwargs.items()), repr(actual))
                if key not in others:
                    others[key] = look_up(*args, **kwargs)
                kernel = others[key]
        except NoKey:
            kernel = None
        except (TypeError, NoIdentity):  # an argument that has no hash, or that may change
            kernel = _none_without_key(look_up, args, kwargs)
        return original(*args, **kwargs) if kernel is None else kernel

    def clear() -> None:
        answer.cache_clear()
        others.clear()

    return hooked, clear, answer.cache_info


def _run_around(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], answers: Answers
) -> Any:
    with answered_by(answers):
        return function(*args, **kwargs)


class CachedMapping(MutableMapping[Any, Any]):
    """A library's mapping from its keys to compiled kernels, which looks a kernel up in the caches first.

    Parameters
    ----------
    path
        The function that keeps its kernels here; None if several do, and each is wrapped by ``calls_of``.
    """

    def __init__(self, attachment: KernelSource, library: Library, path: str | None, original: Any) -> None:
        self._attachment, self._library, self._path, self._original = attachment, library, path, original
        self._answers: dict[Any, Any] = {}
        self._thread = threading.local()
        attachment.on_change(self._answers.clear)

    def __contains__(self, key: Any) -> bool:
        return self._find(key) is not None or key in self._original

    def __getitem__(self, key: Any) -> Any:
        kernel = self._find(key)
        return self._original[key] if kernel is None else kernel

    def __setitem__(self, key: Any, compiled: Any) -> None:
        self._end_compile()
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
        self._answers.clear()
        self._original.clear()

    def _find(self, key: Any) -> Any:
        """A cache's kernel, None where there is none; the answer is kept.

        A recording notes every call of a key: which of them it keeps must not depend on which came first.
        """
        running = self._running
        path = self._path or (running and running.path)
        if path is None:
            return None
        entry = None
        try:
            entry = (path, key, identity_of(key))
            if not self._attachment.recording:
                return self._answers[entry]
        except (KeyError, NoIdentity):
            pass
        kernel = self._attachment.obtain(self._library, path, {"key": key}, call=self._call)
        if entry is not None:
            self._answers[entry] = kernel
        inside = running is not None and running.arguments is not None
        if kernel is None and inside and not getattr(self._thread, "compiling", False):
            self._thread.compiling = True  # until the library stores what it compiles, or its call ends
            begin_tracked_compile()
        return kernel

    @property
    def _running(self) -> _Running | None:
        return getattr(self._thread, "running", None)

    def _end_compile(self) -> None:
        if getattr(self._thread, "compiling", False):
            self._thread.compiling = False
            end_tracked_compile()

    def calls_of(self, path: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, under its path; in a recording, its arguments are at hand while it runs."""
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = self._running
            arguments = signature.bind(*args, **kwargs).arguments if self._attachment.recording else None
            self._thread.running = _Running(path, arguments)
            try:
                return function(*args, **kwargs)
            finally:
                self._thread.running = before
                self._end_compile()

        return call

    def _call(self) -> Mapping[str, Any]:
        arguments = (self._running and self._running.arguments) or {}
        rule = self._library.describe
        describe = None if rule is None else lambda value: rule(value, self._attachment.notes)
        return {name: encode(value, tensors=True, describe=describe) for name, value in arguments.items()}


class _Running(NamedTuple):
    """A call of a function that keeps its kernels in a mapping; the arguments only in a recording."""

    path: str
    arguments: Mapping[str, Any] | None
