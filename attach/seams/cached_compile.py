"""A library's compile function, or its mapping of compiled kernels, that looks a kernel up in the caches first."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from types import CellType, FunctionType
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
from precast.attach.seams.kept_compile import Arguments, KeptCompile, NoKey, keeps_kernels, typical


def cached_compile(
    attachment: KernelSource,
    library: Library,
    function: Callable[..., Any],
    original: Callable[..., Any],
    type_only: Collection[str] = (),
    *,
    devices: Collection[str] = (),
    path: str | None = None,
    owner: type | None = None,
) -> Any:
    """A compile function that looks its kernels up in the caches first, and calls ``function`` on a miss.

    ``original`` is the function as its library has it, under ``functools.cache`` or decorators that keep what it
    returns: they stay around the look-up. So a process has one kernel for the calls for which the library would have
    one, for as long as the library would. For ``type_only`` parameters, only a number's type is in the key; of
    ``devices``, a device's number is not. ``path`` is where the function is found, if that is not its own name, and
    ``owner`` the class that it is called on.
    """
    path = path or f"{function.__module__}:{function.__qualname__}"
    parameters = Arguments(function)

    def look_up(*args: Any, **kwargs: Any) -> Any:
        if answering():  # a function that calls this one is run around its kernels: ours are among them
            return function(*args, **kwargs)
        try:
            arguments = parameters.of(args, kwargs)
        except TypeError:
            return None  # the function itself reports what is wrong with the call
        arguments = {name: typical(value) if name in type_only else value for name, value in arguments.items()}
        arguments |= {name: 0 for name in devices if type(arguments.get(name)) is int}
        fallback = functools.partial(_run_around, function, args, kwargs)
        kernel = attachment.obtain(library, path, arguments, fallback=fallback, owner=owner)
        if kernel is None and any(hasattr(type(value), "__dlpack__") for value in arguments.values()):
            raise NoKey
        return kernel

    compile_uncached = tracking(function) if attachment.recording else function

    @functools.wraps(function)
    def served(*args: Any, **kwargs: Any) -> Any:
        try:
            kernel = look_up(*args, **kwargs)
        except NoKey:
            kernel = None
        return compile_uncached(*args, **kwargs) if kernel is None else kernel

    on_disk = any(os.environ.get(name) != value for name, value in library.environment.items())  # as the user wants it
    below = not keeps_kernels(function) if original == function else hasattr(original, "cache_clear")
    hooked = around(original, function, served) if below and not type_only and not on_disk else None
    if hooked is None:  # the library keeps kernels where no look-up can be put, or cannot be cleared
        compile_below = tracking(original) if attachment.recording else original
        hooked = functools.update_wrapper(KeptCompile(type_only, parameters, look_up, compile_below), original)
        vars(hooked).pop("cache_clear", None)  # it has its own
    if hasattr(hooked, "cache_clear"):
        attachment.on_change(hooked.cache_clear)
    return hooked


def around(original: Any, function: Callable[..., Any], served: Callable[..., Any]) -> Any:
    """``original`` with ``served`` in the place of ``function``, below its caches and decorators; None where a
    decorator holds the function elsewhere than in a cell.

    >>> cached = around(functools.cache(len), len, lambda text: 2 * len(text))
    >>> cached("ab"), cached.cache_info().currsize
    (4, 1)
    """
    if getattr(original, "__func__", original) is getattr(function, "__func__", function):
        return served
    below = getattr(original, "__wrapped__", None)
    if isinstance(original, functools._lru_cache_wrapper):
        inner = around(below, function, served)
        if inner is None:
            return None
        hooked = functools.update_wrapper(functools.lru_cache(**original.cache_parameters())(inner), original)
        vars(hooked)["__wrapped__"] = below
        return hooked
    if below is None or type(original) is not FunctionType:
        return None
    cells = [cell for cell in original.__closure__ or () if _content(cell) is below]
    inner = around(below, function, served) if cells else None
    for cell in cells if inner is not None else ():
        cell.cell_contents = inner
    return None if inner is None else original


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def tracking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; what it compiles is not reported as untracked."""

    def compiled(*args: Any, **kwargs: Any) -> Any:
        with tracked_compile():
            return function(*args, **kwargs)

    return compiled


def _run_around(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], answers: Answers
) -> Any:
    with answered_by(answers):
        return function(*args, **kwargs)


class CachedMapping(MutableMapping[Any, Any]):
    """A library's mapping from its keys to compiled kernels, which looks a kernel up in the caches where the library
    would compile: for a key that equals none of those before.

    Parameters
    ----------
    path
        The function that keeps its kernels here; None if several do, and each is wrapped by ``calls_of``.
    """

    def __init__(self, attachment: KernelSource, library: Library, path: str | None, original: Any) -> None:
        self._attachment, self._library, self._path, self._original = attachment, library, path, original
        self._served: dict[Any, Any] = {}  # not in the library's own, which may write what it gets to a disk
        self._thread = threading.local()
        attachment.on_change(self._served.clear)

    def __contains__(self, key: Any) -> bool:
        return key in self._served or self._find(key) is not None or key in self._original

    def __getitem__(self, key: Any) -> Any:
        kernel = self._served.get(key)
        if kernel is None:
            kernel = self._find(key)
        return self._original[key] if kernel is None else kernel

    def __setitem__(self, key: Any, compiled: Any) -> None:
        self._end_compile()
        self._served.pop(key, None)
        self._original[key] = compiled

    def __delitem__(self, key: Any) -> None:
        if self._served.pop(key, None) is None:
            del self._original[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._original)

    def __len__(self) -> int:
        return len(self._original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def clear(self) -> None:
        """Forget everything, as the library's own mapping does."""
        self._served.clear()
        self._original.clear()

    def _find(self, key: Any) -> Any:
        """A cache's kernel where the library has none; None where there is none. It is kept.

        A recording notes every call of a key: which of them it keeps must not depend on which came first.
        """
        running, recording = self._running, self._attachment.recording
        path = self._path or (running and running.path)
        if path is None or (key in self._original and not recording):
            return None
        kernel = self._attachment.obtain(self._library, path, {"key": key}, call=self._call)
        if kernel is not None:
            return kernel if recording else self._served.setdefault(key, kernel)
        inside = running is not None and running.arguments is not None
        if inside and not getattr(self._thread, "compiling", False):
            self._thread.compiling = True  # until the library stores what it compiles, or its call ends
            begin_tracked_compile()
        return None

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
