"""Hooks: the kinds of seams, each for one way in which libraries keep what they have compiled."""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import FunctionType, ModuleType
from typing import Any

from precast.loader.attach import placeholder
from precast.loader.attach.after_import import after_import, after_import_below
from precast.loader.attach.dsl import answered_by
from precast.loader.attach.keys import encode, find
from precast.loader.attach.library import KernelSource, Library, Seam
from precast.loader.errors import ConfigError


class Decorator(Seam):
    """A decorator that memoises compile functions: ``module.name``. What it decorates becomes a seam each."""

    module: str
    name: str

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            original = _member(module, self.name, library)

            @functools.wraps(original)
            def decorator(function: Callable[..., Any]) -> Any:
                return served(attachment, library, function, original(function))

            setattr(module, self.name, decorator)

        after_import({self.module: change})


class Functions(Seam):
    """Functions of one module, by name, that compile and return a kernel, memoised or not."""

    module: str
    names: tuple[str, ...]

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            for name in self.names:
                found = _member(module, name, library)
                setattr(module, name, served(attachment, library, inspect.unwrap(found), found))

        after_import({self.module: change})


class CompileFunctions(Seam):
    """Every function of a package's modules that calls ``cute.compile`` itself and takes plain arguments.

    They are recognised by their code, whose names include both ``cute`` and ``compile``. A call with a tensor compiles
    as before, since a tensor is no key.
    """

    package: str
    without: tuple[str, ...] = ()

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            for name, found in list(vars(module).items()):
                function = inspect.unwrap(found) if callable(found) and not isinstance(found, type) else None
                if isinstance(function, FunctionType) and function.__module__ == module.__name__ and compiles(function):
                    setattr(module, name, served(attachment, library, function, found))

        after_import_below(self.package, change, without=self.without)


class CacheAttribute(Seam):
    """Functions of a module that keep what they compile in a mapping, which is an attribute of the function.

    The library looks its own key up there; the arguments of the function's call are what a recording builds from.
    """

    module: str
    attribute: str

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            for name, function in list(vars(module).items()):
                original = getattr(function, self.attribute, None) if isinstance(function, FunctionType) else None
                if original is None or function.__module__ != module.__name__:
                    continue
                cache = ServedMapping(attachment, library, f"{module.__name__}:{name}", original)
                outer = cache.noting_calls(function) if attachment.noting else function
                setattr(outer, self.attribute, cache)
                setattr(module, name, outer)

        after_import({self.module: change})


def _member(module: ModuleType, name: str, library: Library) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        raise ConfigError(
            f"{module.__name__} has no {name}: {library.name} is declared for another version of"
            f" {library.distribution}; install that one, or leave {library.name} out of precast.loader.attach(...)"
        ) from None


def compiles(function: FunctionType) -> bool:
    """Whether a function's own code calls ``cute.compile``.

    >>> compiles(lambda: None)
    False
    """
    names = function.__code__.co_names
    return "compile" in names and "cute" in names


def served(
    attachment: KernelSource, library: Library, function: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    """A compile function that asks the caches first. ``original`` is called on a miss; what it keeps stays its own.

    The answer to a key is kept, a miss too. Equal arguments of different types are different keys.
    """
    place = f"{function.__module__}:{function.__qualname__}"
    signature = inspect.signature(function)

    def ask(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return None  # the function itself says what is wrong with the call
        bound.apply_defaults()
        return attachment.obtain(library, place, bound.arguments, own=functools.partial(_own, function, args, kwargs))

    def answer(*args: Any, **kwargs: Any) -> Any:
        kernel = ask(*args, **kwargs)
        return original(*args, **kwargs) if kernel is None else kernel

    hooked: Any
    if isinstance(original, functools._lru_cache_wrapper):  # one look-up then serves both
        hooked = known = functools.lru_cache(maxsize=None, typed=True)(answer)
    else:
        known = functools.lru_cache(maxsize=None, typed=True)(ask)

        def hooked(*args: Any, **kwargs: Any) -> Any:
            try:
                kernel = known(*args, **kwargs)
            except TypeError:  # an argument that has no hash
                return answer(*args, **kwargs)
            return original(*args, **kwargs) if kernel is None else kernel

    clear_known = known.cache_clear

    def clear() -> None:
        clear_known()
        if hasattr(original, "cache_clear"):
            original.cache_clear()

    attachment.on_change(clear_known)
    functools.update_wrapper(hooked, original)
    vars(hooked).update(cache_clear=clear, __wrapped__=function)
    result: Callable[..., Any] = hooked
    return result


def _own(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], kernel: Callable[..., Any]
) -> Any:
    with answered_by(kernel):
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
        return found

    def noting_calls(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose arguments are known while it runs."""
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = getattr(self._calls, "arguments", {})
            self._calls.arguments = signature.bind(*args, **kwargs).arguments
            try:
                return function(*args, **kwargs)
            finally:
                self._calls.arguments = before

        return call

    def _call(self) -> Mapping[str, Any]:
        arguments = getattr(self._calls, "arguments", {})
        return {name: encode(value, tensors=True) for name, value in arguments.items()}


def replace_function(place: str, answer: Callable[..., Any]) -> None:
    """Have a function of a library give another answer, in every module of the library that has taken it."""
    module, _, name = place.partition(":")
    package = module.partition(".")[0]
    if package == placeholder.DSL:
        setattr(importlib.import_module(module), name, answer)
        return

    def change(found: ModuleType) -> None:
        if callable(getattr(found, name, None)):
            setattr(found, name, answer)

    after_import_below(package, change)


def original_of(place: str) -> Callable[..., Any]:
    """The compile function itself at ``module:name``, below every cache; for the builder.

    >>> original_of("json:dumps").__name__
    'dumps'
    """
    original: Callable[..., Any] = inspect.unwrap(find(place))
    return original
