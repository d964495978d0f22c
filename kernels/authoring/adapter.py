"""Adapters: each turns something that is not a kernel function into one. Any distribution can add its own.

An adapter is an entry point of the group ``precast.adapters``. Its name states what it takes, so that none is imported
before there is something for it:

- a plain name takes functions of that name. The adapter is called with the name of the function's module, which is not
  imported yet;
- ``@`` takes what is written as ``module:function@library``. The adapter is called with both parts;
- a dotted name takes classes that derive from the class of that module and name. The adapter is called with the class.

In the ``pyproject.toml`` of a distribution::

    [project.entry-points."precast.adapters"]
    build_graph = "acme.adapter:kernel_of_module"  # compile: some.module:build_graph
    "acme.ops.Op" = "acme.adapter:kernel_of_class"  # compile: some.module:SomeOp

The adapter returns a function that compiles one kernel, with a declaration if it has one to give (see
``precast.kernels.authoring.declare.attach``); or None, where the function or the class is to be used as it is.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from precast.kernels.authoring.errors import SourceError
from precast.kernels.authoring.extras import installing

GROUP = "precast.adapters"
KernelFunction = Callable[..., Any]


def adapter_sources() -> tuple[tuple[str, str], ...]:
    """The name and the ``module:function`` of every installed adapter, whose code takes part in what is compiled.

    >>> ("kernel_fn", "precast.kernels.adapters.scripts.script_kernel:script_kernel") in adapter_sources()
    True
    """
    return tuple((entry.name, entry.value) for entry in _installed())


def adapt_function(module: str, name: str) -> KernelFunction | None:
    """The kernel function that an adapter makes of a module with a function of this name; None where none does.

    >>> adapt_function("json", "dumps") is None
    True
    """
    return _first(name, module)


def adapt_class(cls: type) -> KernelFunction | None:
    """The kernel function that an adapter makes of a class, by the nearest of its bases; None where none does.

    >>> adapt_class(dict) is None
    True
    """
    candidates = (_first(f"{base.__module__}.{base.__qualname__}", cls) for base in cls.__mro__)
    return next((kernel for kernel in candidates if kernel is not None), None)


def adapt_library(location: str, library: str) -> KernelFunction:
    """The kernel function of a compile function, ``module:function``, of the attached library of a name."""
    for entry in _installed():
        if entry.name == "@":
            function: KernelFunction = _load(entry)(location, library)
            return function
    raise SourceError(
        f"{location}@{library}: no adapter for attached libraries is installed: {installing('precast.attach')}"
    )


def read_installed() -> None:
    """Find the adapters now. This reads the metadata of every distribution, once."""
    _installed()


def _first(name: str, value: str | type) -> KernelFunction | None:
    for entry in _installed():
        if entry.name != name:
            continue
        function = _load(entry)(value)
        if callable(function):
            return function  # type: ignore[no-any-return]
        if function is not None:
            raise SourceError(f"the adapter {entry.value} returned {function!r}: it must return a function or None")
    return None


def _installed() -> tuple[EntryPoint, ...]:
    return _installed_on(tuple(sys.path))


@functools.lru_cache(maxsize=8)
def _installed_on(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Reading the metadata of every distribution takes milliseconds, and a worker needs it for each variant."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)))


def _load(entry: EntryPoint) -> Callable[..., Any]:
    try:
        return entry.load()  # type: ignore[no-any-return]
    except Exception as error:
        owner = entry.dist.name if entry.dist else "its distribution"
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        command = installing(missing or "") or f"repair or uninstall {owner}"
        raise SourceError(
            f"the adapter {entry.value}, which takes {entry.name}, cannot be imported: "
            f"{type(error).__name__}: {error}; {command}"
        ) from error
