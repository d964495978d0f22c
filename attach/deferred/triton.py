"""Triton, deferred, where a library uses it only to compile or to tune.

quack derives a class from one of Triton's at its import; it and FlashAttention take a function out of Triton's
disassembler. The class is derived from a stand-in, which Triton's own replaces at the first use of Triton: a call of
the class is one, and so is reading what it inherits. The function is a stand-in, too, and its call is a use.
"""

from __future__ import annotations

import functools
import os
import sys
from abc import ABC, ABCMeta
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from precast.attach.deferred.module import Deferral, DeferredImportFailed, defer, deferral_of
from precast.attach.library import KernelSource, Library, Seam
from precast.loader.contract.import_hook import during_import

TRITON = "triton"
CACHE, MANAGER = "triton.runtime.cache", "FileCacheManager"
DISASSEMBLER, EXTRACT = "triton.tools.disasm", "extract"


class Triton(Seam):
    """Defers Triton where a library only derives a class from its ``FileCacheManager``, and one module of it takes
    ``extract`` out of ``triton.tools.disasm``; not where a recording is made."""

    disassembles: str

    def install(self, attachment: KernelSource, library: Library) -> None:
        if attachment.recording:
            return
        deferral = deferral_of(TRITON)  # another library's file may have deferred it
        if deferral is None:
            deferral = deferral_of_triton()
            if not defer(deferral):
                return
        during_import(self.disassembles, functools.partial(offered_disassembler, deferral))

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        """Never too late: where it is imported already, there is nothing to defer."""
        return None


def deferral_of_triton() -> Deferral:
    """A deferral that answers ``triton.runtime.cache.FileCacheManager``."""
    deferral = Deferral(TRITON)
    manager = stand_in_class(deferral, lambda: getattr(sys.modules[CACHE], MANAGER))
    cache = Names(deferral, CACHE, {MANAGER: manager})
    deferral.answers["runtime"] = Names(deferral, "triton.runtime", {"cache": cache})
    return deferral


class Names:
    """A few attributes of a module that is not executed yet. To read any other is a use."""

    def __init__(self, deferral: Deferral, module: str, attributes: Mapping[str, Any]) -> None:
        self._deferral, self._module, self._attributes = deferral, module, attributes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._attributes and not self._deferral.loaded:
            return self._attributes[name]
        self._deferral.load()
        return getattr(import_module(self._module), name)


def stand_in_class(deferral: Deferral, real: Callable[[], type]) -> type:
    """A class to derive others from: what is derived has the real class as its base from the first use on."""

    class Lazy(ABCMeta):
        def __getattr__(cls, name: str) -> Any:
            if name.startswith("__") or deferral.loaded:
                raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
            deferral.load()
            return getattr(real() if cls is StandIn else cls, name)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            deferral.load()
            if cls is StandIn:
                return real()(*args, **kwargs)
            if StandIn in cls.__mro__:
                raise DeferredImportFailed(
                    f"{cls.__module__}.{cls.__name__} cannot be derived from this Triton's {MANAGER}: import triton"
                    " before attaching",
                    name=TRITON,
                )
            return super().__call__(*args, **kwargs)

    class StandIn(ABC, metaclass=Lazy):  # as the real one: Python replaces a base by one of the same layout only
        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            deferral.after_use(lambda: derive(cls))

    def derive(cls: type) -> None:
        with suppress(AttributeError, KeyError, TypeError):  # an error of the class's first call, not of an import
            cls.__bases__ = tuple(real() if base is StandIn else base for base in cls.__bases__)

    return StandIn


@contextmanager
def offered_disassembler(deferral: Deferral) -> Iterator[None]:
    """Within this, an import of Triton's disassembler finds a stand-in, if Triton has one: to import the real one is to
    execute Triton."""
    offered = disassembler(deferral)
    if not deferral.loaded and has_disassembler():
        sys.modules.setdefault(DISASSEMBLER, offered)
    try:
        yield
    finally:
        withdraw(offered)


def has_disassembler() -> bool:
    """Whether the installed Triton has its disassembler; nothing is executed."""
    try:
        spec = find_spec(TRITON)
    except (ImportError, ValueError):  # another finder refuses it
        return False
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return any(os.path.isfile(os.path.join(folder, "tools", "disasm.py")) for folder in folders)


def withdraw(offered: ModuleType) -> None:
    """Let later imports find the real module."""
    if sys.modules.get(DISASSEMBLER) is offered:
        del sys.modules[DISASSEMBLER]


def disassembler(deferral: Deferral) -> ModuleType:
    """A module in place of Triton's disassembler."""
    offered = ModuleType(DISASSEMBLER)

    def real() -> ModuleType:
        withdraw(offered)
        deferral.load()
        return import_module(DISASSEMBLER)

    def extract(*args: Any, **kwargs: Any) -> Any:
        return getattr(real(), EXTRACT)(*args, **kwargs)

    def attribute(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {DISASSEMBLER!r} has no attribute {name!r}")
        return getattr(real(), name)

    vars(offered).update({EXTRACT: extract, "__getattr__": attribute})
    return offered
