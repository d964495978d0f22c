"""Hooks: the kinds of seams, each for one way in which libraries keep what they have compiled."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from precast.loader.attach import placeholder
from precast.loader.attach.after_import import after_import, after_import_below
from precast.loader.attach.dsl import answered_by
from precast.loader.attach.keys import encode
from precast.loader.attach.library import KernelSource, Library, Seam


class Decorator(Seam):
    """A decorator that memoises compile functions: ``module.name``. What it decorates becomes a seam each."""

    module: str
    name: str

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            original = getattr(module, self.name)

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
                found = getattr(module, name)
                setattr(module, name, served(attachment, library, inspect.unwrap(found), found))

        after_import({self.module: change})


class CompileFunctions(Seam):
    """Every function of a package's modules that calls ``cute.compile`` itself and takes plain arguments.

    They are told by their code: its names have both ``cute`` and ``compile``. One that takes a tensor compiles as
    before, since a tensor is no key.
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
    """A compile function that asks the caches first. ``original`` is called on a miss; what it keeps stays its own."""
    place = f"{function.__module__}:{function.__qualname__}"
    signature = inspect.signature(function)
    known: dict[Any, Any] = {}

    @functools.wraps(original)
    def obtain(*args: Any, **kwargs: Any) -> Any:
        key: Any = (args, tuple(sorted(kwargs.items()))) if kwargs else args
        try:
            return known[key]
        except (KeyError, TypeError):
            pass
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found = attachment.obtain(library, place, bound.arguments, own=functools.partial(_own, function, args, kwargs))
        if found is None:
            return original(*args, **kwargs)
        with contextlib.suppress(TypeError):  # a list or a dict among the arguments
            known[key] = found
        return found

    def clear() -> None:
        known.clear()
        inner = getattr(original, "cache_clear", None)
        if inner is not None:
            inner()

    obtain.cache_clear = clear  # type: ignore[attr-defined]
    obtain.__wrapped__ = function
    return obtain


def _own(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], kernel: Callable[..., Any]
) -> Any:
    with answered_by(kernel):
        return function(*args, **kwargs)


class ServedMapping:
    """A library's mapping from its keys to compiled kernels, which looks into the caches first."""

    def __init__(self, attachment: KernelSource, library: Library, place: str, original: Any) -> None:
        self._attachment, self._library, self._place, self._original = attachment, library, place, original
        self._known: dict[Any, Callable[..., Any]] = {}
        self._missing: set[Any] = set()
        self._calls: list[Mapping[str, Any]] = []

    def __contains__(self, key: Any) -> bool:
        if key in self._known or key in self._original:
            return True
        if key in self._missing:
            return False
        found = self._attachment.obtain(self._library, self._place, {"key": key}, call=self._call)
        if found is None:
            self._missing.add(key)
            return False
        self._known[key] = found
        return True

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._known[key]
        except KeyError:
            return self._original[key]

    def __setitem__(self, key: Any, compiled: Any) -> None:
        self._original[key] = compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def clear(self) -> None:
        """Forget everything, as the library's own mapping does."""
        self._known.clear()
        self._missing.clear()
        self._original.clear()

    def noting_calls(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose arguments are known while it runs."""
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._calls.append(signature.bind(*args, **kwargs).arguments)
            try:
                return function(*args, **kwargs)
            finally:
                self._calls.pop()

        return call

    def _call(self) -> Mapping[str, Any]:
        return {name: encode(value, tensors=True) for name, value in self._calls[-1].items()} if self._calls else {}


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
    """The compile function itself at ``module:name``, below every cache; for the builder."""
    module, _, name = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    original: Callable[..., Any] = inspect.unwrap(found)
    return original
