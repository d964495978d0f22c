"""Hooks: the kinds of seams, one for each way in which libraries keep what they have compiled."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from precast.attach.compiler import placeholder
from precast.attach.late.holders import Held, if_held, if_imported
from precast.attach.library import KernelSource, Library, Seam
from precast.attach.seams.cached_compile import CachedMapping, cached_compile
from precast.attach.seams.compile_sites import compiles, function_of
from precast.loader.contract.import_hook import after_import, after_import_below, imported_below
from precast.loader.errors import ConfigError


class Decorator(Seam):
    """A decorator that memoises compile functions: ``module.name``. Each function that it decorates is served."""

    module: str
    name: str

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            original = _member(module, self.name, library)

            @functools.wraps(original)
            def decorator(function: Callable[..., Any]) -> Any:
                return cached_compile(attachment, library, function, original(function))

            setattr(module, self.name, decorator)

        after_import({self.module: change})

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        """It has decorated the functions of every module that imported it."""
        return if_imported(self.module)


class Functions(Seam):
    """Functions of one module, by name, that compile and return a kernel, memoised or not."""

    module: str
    names: tuple[str, ...]

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            for name in self.names:
                value = _member(module, name, library)
                setattr(module, name, cached_compile(attachment, library, inspect.unwrap(value), value))

        after_import({self.module: change})

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        module = sys.modules.get(self.module)
        if module is None:
            return None
        return if_held((vars(module), f"{self.module}:{name}", _member(module, name, library)) for name in self.names)


class CompileFunctions(Seam):
    """Every function of a package's modules that calls ``cute.compile`` itself and takes plain arguments.

    They are recognised by their code, which calls ``cute.compile`` or ``cute_ext.compile``. ``through`` names functions
    of the library that take a function which compiles, and call it where a cache on disk has no kernel: a function that
    passes them an inner function that compiles is recognised too. A call with a tensor compiles as before, since a
    tensor cannot be a key. ``passed`` names parameters, by ``module:function``, that the library passes to the kernel
    at each call and leaves out of its own key: of a number, a pointer or a stream among them only the type belongs to
    the key. ``devices`` names parameters that are a device's number, which does not belong to a key: all devices of a
    machine are one kind.
    """

    package: str
    without: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    passed: Mapping[str, tuple[str, ...]] = {}
    devices: tuple[str, ...] = ()

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            for name, function, value in self._functions(module):
                type_only = self.passed.get(f"{module.__name__}:{name}", ())
                hooked = cached_compile(attachment, library, function, value, type_only, devices=self.devices)
                setattr(module, name, hooked)

        after_import_below(self.package, change, without=self.without)

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        modules = imported_below(self.package, without=self.without).values()
        return if_held(
            (vars(module), f"{module.__name__}:{name}", value)
            for module in modules
            for name, _, value in self._functions(module)
        )

    def _functions(self, module: ModuleType) -> list[tuple[str, FunctionType, Any]]:
        """The functions of a module that compile, with their names and as the module has them, decorated."""
        listed = [(name, function_of(value), value) for name, value in list(vars(module).items())]
        return [
            (name, function, value)
            for name, function, value in listed
            if function is not None and function.__module__ == module.__name__ and compiles(function, self.through)
        ]


class CacheAttribute(Seam):
    """Functions of a module that keep what they compile in a mapping, which is an attribute of the function.

    The library looks its own key up there; a recording keeps the arguments of the function's call, to build from.
    """

    module: str
    attribute: str

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            for name, function, original in self._functions(module):
                path = f"{module.__name__}:{name}"
                cache = CachedMapping(attachment, library, path, original)
                outer = cache.calls_of(path, function) if attachment.recording else function
                setattr(outer, self.attribute, cache)
                setattr(module, name, outer)

        after_import({self.module: change})

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        module = sys.modules.get(self.module)
        return None if module is None else if_held(self._held(module, attachment.recording))

    def _held(self, module: ModuleType, recording: bool) -> Iterator[Held]:
        """What is replaced: the mappings, and in a recording the functions, too."""
        for name, function, original in self._functions(module):
            yield vars(function), f"{self.module}:{name}.{self.attribute}", original
            if recording:
                yield vars(module), f"{self.module}:{name}", function

    def _functions(self, module: ModuleType) -> list[tuple[str, FunctionType, Any]]:
        """The functions of a module that have the attribute, with their names and their mappings."""
        return [
            (name, value, original)
            for name, value in list(vars(module).items())
            if isinstance(value, FunctionType) and value.__module__ == module.__name__
            if (original := getattr(value, self.attribute, None)) is not None
        ]


def _member(module: ModuleType, name: str, library: Library) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        raise ConfigError(
            f"{module.__name__} has no {name}: {library.name} is declared for another version of"
            f" {library.distribution}: do not attach {library.name}, or install that version"
        ) from None


def replace_function(function: str, answer: Any) -> None:
    """Replace ``module:name``: a name of the DSL, or a function in all modules of its library that have imported it."""
    module, _, name = function.partition(":")
    package = module.partition(".")[0]
    if package == placeholder.DSL:
        setattr(placeholder.module_named(module), name, answer)
        return

    stand_in = standing_for(module, name, answer)

    def change(imported: ModuleType) -> None:
        if callable(original := getattr(imported, name, None)) and original is not stand_in:
            vars(stand_in).setdefault("__wrapped__", original)  # whose state is a fact of kernels
            setattr(imported, name, stand_in)

    after_import_below(package, change)


@functools.cache
def standing_for(module: str, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the name of the one that it replaces, the same for each call of this. Where a kernel depends on
    that function, a recording has its name, which must not differ from one process to another.

    >>> standing_for("acme.gpu", "clusters", len).__module__, standing_for("acme.gpu", "clusters", len)("ab")
    ('acme.gpu', 2)
    """

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return answer(*args, **kwargs)

    stand_in.__module__, stand_in.__name__, stand_in.__qualname__ = module, name, name
    return stand_in
