"""Hooks of methods: seams for classes whose methods compile kernels."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

from precast.attach.compiler.dsl import Answers, answered_by
from precast.attach.late.holders import Held, if_held
from precast.attach.library import KernelSource, Library, Seam
from precast.attach.seams.cached_compile import cached_compile, tracking
from precast.attach.seams.compile_sites import compiles, function_of
from precast.loader.contract.import_hook import after_import, after_import_below, imported_below
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError

STATE = "self"
"""The name in a key under which the attributes of a method's object stand."""


class ClassMethods(Seam):
    """Every static method and class method of a package's classes that calls ``cute.compile`` itself, memoised or not.

    They are recognised as ``CompileFunctions`` recognises functions. A class method has keys of its own for each class
    that it is called on. ``devices`` names parameters that are a device's number, which does not belong to a key.
    """

    package: str
    without: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            for owner in _classes_of(module):
                for name, value in list(vars(owner).items()):
                    function = static_function(value)
                    if function is None or not compiles(function):
                        continue
                    if isinstance(value, classmethod):
                        setattr(owner, name, self._of_each_class(attachment, library, function, value))
                    else:
                        original = getattr(owner, name)
                        hooked = cached_compile(attachment, library, function, original, devices=self.devices)
                        setattr(owner, name, staticmethod(hooked))

        after_import_below(self.package, change, without=self.without)

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        modules = imported_below(self.package, without=self.without).values()
        return if_held(
            held
            for module in modules
            for owner in _classes_of(module)
            for name, value in list(vars(owner).items())
            if (function := static_function(value)) is not None and compiles(function)
            for held in _held(owner, name, value)
        )

    def _of_each_class(
        self, attachment: KernelSource, library: Library, function: FunctionType, original: Any
    ) -> classmethod[Any, Any, Any]:
        @functools.cache
        def hooked(owner: type) -> Callable[..., Any]:
            path = f"{owner.__module__}:{owner.__qualname__}.{function.__name__}"
            own, bound = MethodType(function, owner), original.__get__(None, owner)
            compile_it: Callable[..., Any] = cached_compile(
                attachment, library, own, bound, devices=self.devices, path=path, owner=owner
            )
            return compile_it

        @functools.wraps(function)
        def method(owner: type, /, *args: Any, **kwargs: Any) -> Any:
            return hooked(owner)(*args, **kwargs)

        return classmethod(method)


class Keyed(Immutable, kw_only=True):
    """How a method that compiles for a key keeps the kernel.

    Parameters
    ----------
    filed
        The attributes of its object, each a mapping, in which it files kernels.
    without
        Attributes that no kernel depends on, such as what was requested so far. All others belong to the key.
    entry
        From the object and the arguments, the entry to file under here, where that holds the number of the device.
    """

    filed: tuple[str, ...]
    without: tuple[str, ...] = ()
    entry: Callable[..., Any] | None = None


class KeyedMethods(Seam):
    """Methods of objects that compile a kernel for their arguments and file it in a mapping of the object.

    By ``module:Class.method``; subclasses inherit the seam, and have keys of their own.
    """

    methods: Mapping[str, Keyed]

    def keyed(self, owner: type, method: str) -> Keyed | None:
        """How a method of a class keeps its kernels; None for one that is not among these."""
        paths = (f"{base.__module__}:{base.__qualname__}.{method}" for base in owner.__mro__)
        return next((self.methods[path] for path in paths if path in self.methods), None)

    def install(self, attachment: KernelSource, library: Library) -> None:
        modules = {path.partition(":")[0] for path in self.methods}
        after_import({module: functools.partial(self._change, attachment, library) for module in modules})

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        return if_held(
            held
            for path in self.methods
            if (module := sys.modules.get(path.partition(":")[0])) is not None
            for owner, method in [_method(module, path, library)]
            for held in _held(owner, method, vars(owner)[method])
        )

    def _change(self, attachment: KernelSource, library: Library, module: ModuleType) -> None:
        for path, keyed in self.methods.items():
            if path.partition(":")[0] == module.__name__:
                owner, method = _method(module, path, library)
                setattr(owner, method, _filing(attachment, library, keyed, vars(owner)[method]))


def _method(module: ModuleType, named: str, library: Library) -> tuple[type, str]:
    """The class of a method, and the method's name in it."""
    of, _, path = named.partition(":")
    names, _, method = path.rpartition(".")
    owner: Any = module
    for name in names.split("."):
        owner = getattr(owner, name, None)
    if method not in vars(owner or object):
        raise ConfigError(
            f"{of} has no {path}: {library.name} is declared for another version of "
            f"{library.distribution}: do not attach {library.name}, or install that version"
        )
    return owner, method


def _held(owner: type, name: str, value: Any) -> Iterator[Held]:
    """What a hook of a method replaces: the value in its class, and the function in a static or class method."""
    path = f"{owner.__module__}:{owner.__qualname__}.{name}"
    (namespace,) = gc.get_referents(vars(owner))  # the dict behind the proxy
    yield namespace, path, value
    if isinstance(value, (staticmethod, classmethod)):
        yield value, path, value.__func__


def _filing(attachment: KernelSource, library: Library, keyed: Keyed, original: FunctionType) -> Callable[..., Any]:
    """A method that files a cache's kernel where there is one, and does as before where there is none."""
    signature = inspect.signature(original)
    tracked = tracking(original) if attachment.recording else original

    @functools.wraps(original)
    def compile_it(instance: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(instance, *args, **kwargs)
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        path = f"{type(instance).__module__}:{type(instance).__qualname__}.{original.__name__}"

        def run_around(answers: Answers) -> Any:
            with answered_by(answers):
                return _Executed(original(instance, *args, **kwargs))

        key = {STATE: state_of(instance, keyed), **arguments}
        kernels = attachment.obtain(library, path, key, fallback=run_around, owner=type(instance))
        if kernels is None:
            return tracked(instance, *args, **kwargs)
        if isinstance(kernels, _Executed):  # it has filed them itself
            return kernels.returned
        if not isinstance(kernels, tuple):  # the kernel that does nothing, of a recording without the compiler
            for name in keyed.filed:
                setattr(instance, name, _PlaceholderTable(kernels))
            return kernels
        returned, filed = kernels
        for name, entries in filed.items():
            if keyed.entry is not None:
                entries = {keyed.entry(instance, **arguments): next(iter(entries.values()))}
            getattr(instance, name).update(entries)
        return returned

    return compile_it


def prebuilt(
    attachment: KernelSource, library: Library, instance: Any, method: str, arguments: Mapping[str, Any]
) -> Any:
    """What a method of an object would file for these arguments, by the attributes that it files it in; None where no
    cache has it. For a library that requests prebuilt kernels itself, before it compiles."""
    keyed = next(
        (
            keyed
            for seam in library.seams
            if isinstance(seam, KeyedMethods)
            if (keyed := seam.keyed(type(instance), method))
        ),
        None,
    )
    if keyed is None:
        return None
    path = f"{type(instance).__module__}:{type(instance).__qualname__}.{method}"
    key = {STATE: state_of(instance, keyed), **arguments}
    kernels = attachment.obtain(library, path, key, owner=type(instance))
    return kernels[1] if isinstance(kernels, tuple) else None


class _Executed(Immutable):
    """What a method returned that was run around kernels."""

    returned: Any


class _PlaceholderTable(dict[Any, Any]):
    """A mapping that has one kernel under every key."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self._kernel = kernel

    def __missing__(self, key: Any) -> Callable[..., Any]:
        return self._kernel


def state_of(instance: Any, keyed: Keyed) -> tuple[tuple[str, Any], ...]:
    """The attributes of an object that belong to its keys.

    >>> import types
    >>> instance = types.SimpleNamespace(tile=64, _compiled={}, _asked=3)
    >>> state_of(instance, Keyed(filed=("_compiled",), without=("_asked",)))
    (('tile', 64),)
    """
    return tuple(sorted((n, value) for n, value in vars(instance).items() if n not in (*keyed.filed, *keyed.without)))


def static_function(value: Any) -> FunctionType | None:
    """The function of a static method or a class method, below ``functools.cache`` on either side; None for all else.

    >>> static_function(functools.cache(staticmethod(state_of))) is state_of, static_function(state_of)
    (True, None)
    """
    inner = value.__wrapped__ if type(value) is functools._lru_cache_wrapper else value
    return function_of(inner.__func__) if isinstance(inner, (staticmethod, classmethod)) else None


def _classes_of(module: ModuleType) -> Iterator[type]:
    """The classes that a module defines. Skips objects with a catch-all ``__getattr__``."""
    for value in list(vars(module).values()):
        if issubclass(type(value), type) and value.__module__ == module.__name__:
            yield value
