"""A module whose code runs at the first use of it. Up to then it is searched for and found, and executed by nothing.

Any attribute is a use, except those that the import system and tools for debugging read of every module, those that a
declaration answers, and modules below it that a declaration names as apart. ``from module import name`` and the import
of a module below it are uses, too. The import at the first use is an ordinary one: other threads wait for it, and it
executes the module object that was bound before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from precast.loader.errors import PrecastError
from precast.loader.locks import ForkSafeLock

_DEFERRAL = "__precast_deferral__"
_NO_USE = frozenset(("__class__", "__file__", "__loader__", "__name__", "__package__", "__spec__"))
_NEVER_THERE = "__warningregistry__"  # unittest reads it of every module


class DeferredImportFailed(PrecastError, ImportError):
    """The code of a module whose import was deferred failed at its first use; the cause is attached."""

    code = "PCA05"


class Deferral:
    """The deferred import of one module.

    Parameters
    ----------
    module
        Its name.
    answers
        Values of attributes that are read without a use. The module's own replace them at its first use.
    apart
        Modules below it whose code needs nothing of it, such as its settings: to read one imports that one alone.
    """

    def __init__(self, module: str, answers: Mapping[str, Any] | None = None, apart: Collection[str] = ()) -> None:
        self.name = module
        self.answers = dict(answers or {})
        self.apart = frozenset(apart)
        self.loaded = False
        self._module: ModuleType | None = None
        self._begun = False
        self._importing: set[int] = set()  # threads in which the import system reads and sets the module's attributes
        self._lock = ForkSafeLock()
        self._before: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []

    def before_use(self, action: Callable[[], None]) -> None:
        """Call a function right before the module's code runs."""
        self._before.append(action)

    def after_use(self, action: Callable[[], None]) -> None:
        """Call a function as soon as the module's code has run; at once if it has."""
        if self.loaded:
            action()
        else:
            self._after.append(action)

    def load(self) -> ModuleType:
        """The module, after its code has run."""
        with self._lock:
            if not self._begun and sys.modules.get(self.name) is self._module:
                sys.modules.pop(self.name, None)  # so that the import system runs its code, and has others wait
            self._begun = True
        try:
            return import_module(self.name)
        except Exception as error:
            raise DeferredImportFailed(
                f"{self.name} was imported before, its code ran only now, at its first use, and failed"
                f" ({type(error).__name__}: {error}): repair that installation, or import {self.name} before attaching",
                name=self.name,
            ) from error

    def attribute(self, module: ModuleType, name: str) -> Any:
        """An attribute of the module."""
        if threading.get_ident() not in self._importing:
            if name in self.answers and not self.loaded:
                return self.answers[name]
            if name in self.apart and not self._begun:
                with suppress(Exception):  # an ordinary import of the whole says what is wrong
                    return self._import_apart(name)
            if name == _NEVER_THERE:
                raise AttributeError(f"module {self.name!r} has no attribute {name!r}")
            loaded = self.load()
            if loaded is not module:
                return getattr(loaded, name)
        return ModuleType.__getattribute__(module, name)

    def prepare_change(self) -> None:
        """To set or delete an attribute is a use."""
        if threading.get_ident() not in self._importing:
            self.load()

    def _import_apart(self, name: str) -> ModuleType:
        self._importing.add(threading.get_ident())
        try:
            return import_module(f"{self.name}.{name}")
        finally:
            self._importing.discard(threading.get_ident())

    def module_of(self, spec: ModuleSpec) -> ModuleType:
        """The module object, one for all attempts."""
        if self._module is None:
            self._module = _DeferredModule(spec.name)
        if self._begun:
            self._importing.add(threading.get_ident())
        return self._module

    def execute(self, module: ModuleType, run: Callable[[ModuleType], None]) -> None:
        """Defer the module's code, or run it where the module is used."""
        names = ModuleType.__getattribute__(module, "__dict__")
        if not self._begun:
            names[_DEFERRAL] = self
            return
        try:
            while self._before:
                self._before.pop()()
            run(module)
        finally:
            self._importing.discard(threading.get_ident())
        self.loaded = True
        if sys.modules.get(self.name) is module:  # else its code has put another object there, which has the attributes
            names.pop(_DEFERRAL, None)
            if type(module) is _DeferredModule:
                module.__class__ = ModuleType  # type: ignore[assignment]
        while self._after:
            self._after.pop(0)()


class _DeferredModule(ModuleType):
    def __getattribute__(self, name: str) -> Any:
        deferral = _deferral_of(self)
        if deferral is None or name in _NO_USE:
            return ModuleType.__getattribute__(self, name)
        return deferral.attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        deferral = _deferral_of(self)
        if deferral is not None and name not in _NO_USE:
            deferral.prepare_change()
        ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        deferral = _deferral_of(self)
        if deferral is not None:
            deferral.prepare_change()
        ModuleType.__delattr__(self, name)


def _deferral_of(module: ModuleType) -> Deferral | None:
    deferral: Deferral | None = ModuleType.__getattribute__(module, "__dict__").get(_DEFERRAL)
    return deferral


def defer(deferral: Deferral) -> bool:
    """Defer the import of a module from now on.

    Returns
    -------
    bool
        False where nothing was changed: the module is imported already, or its import is deferred already.

    >>> defer(Deferral("json"))
    False
    """
    if deferral.name in sys.modules or deferral_of(deferral.name) is not None:
        return False
    sys.meta_path.insert(0, _Finder(deferral))
    return True


def deferral_of(module: str) -> Deferral | None:
    """The deferral of a module's import; None where it is not deferred.

    >>> deferral_of("json")
    """
    deferrals = [finder.deferral for finder in sys.meta_path if isinstance(finder, _Finder)]
    return next((deferral for deferral in deferrals if deferral.name == module), None)


class _Finder(MetaPathFinder):
    """Finds what the finders after it find, with a loader that defers."""

    def __init__(self, deferral: Deferral) -> None:
        self.deferral = deferral

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if target is None and fullname.startswith(f"{self.deferral.name}.") and fullname in sys.modules:
            # Its import is the first use of the module above it, whose code has just imported it: not a second time.
            return ModuleSpec(fullname, _Imported(sys.modules[fullname]))
        if fullname != self.deferral.name or self.deferral.loaded:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self.deferral)
                return spec
        return None


class _Loader(Loader):
    """The loader of a module, which leaves running its code to the deferral."""

    def __init__(self, inner: Loader, deferral: Deferral) -> None:
        self._inner = inner
        self._deferral = deferral

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module = self._inner.create_module(spec)
        return self._deferral.module_of(spec) if module is None else module  # a module in C makes its own

    def exec_module(self, module: ModuleType) -> None:
        # Code that reads the loader off the module (inspect, importlib.resources) must get the real one.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        if isinstance(module, _DeferredModule):
            self._deferral.execute(module, self._inner.exec_module)
        else:
            self._inner.exec_module(module)


class _Imported(Loader):
    """The loader of a module that is imported already: it runs nothing."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
