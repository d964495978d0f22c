"""Reach: the code and the values of modules that a function can use, read from the code of functions.

A function reaches what its code names: globals, what it imports, names of modules, closures and defaults; of a class,
the methods whose names reached code reads as attributes. More is reached than runs, so that a kernel's facts hold more
than decided it, and never less; only names that are made at run time (``getattr(module, text)``) are not followed.
"""

from __future__ import annotations

import dis
import functools
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_COMPARISONS = (
    "__repr__",
    "__eq__",
    "__hash__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
)  # a dataclass's read all fields
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")  # they set what a new object begins with
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "LOAD_SUPER_ATTR")


@dataclass(frozen=True, slots=True)
class Reach:
    """Modules whose code is reached, the globals that it reads, by ``module:name``, the classes, and the names of
    attributes that it reads. What reached code itself sets is not among these: it is made as it is needed."""

    modules: frozenset[str]
    values: Mapping[str, Any]
    classes: tuple[type, ...]
    attributes: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Names:
    """What a code object and those inside it name."""

    read: frozenset[str]
    stored: frozenset[str]
    attributes: frozenset[str]
    assigned: frozenset[str]
    assigned_to_self: frozenset[str]
    imported: frozenset[tuple[int, str]]


def reach_of(roots: Iterable[object], counts: Callable[[str], bool]) -> Reach:
    """What these functions and classes reach, among the modules that count.

    >>> found = reach_of([reach_of], lambda module: module == __name__)
    >>> sorted(found.modules) == [__name__], f"{__name__}:_ATTRIBUTES" in found.values
    (True, True)
    """
    walk = _Walk(counts)
    for root in roots:
        walk.follow(root)
    walk.run()
    values = {name: value for name, value in walk.values.items() if name not in walk.stored}
    return Reach(frozenset(walk.modules), values, tuple(walk.classes), frozenset(walk.state - walk.assigned))


@dataclass
class _Walk:
    counts: Callable[[str], bool]
    waiting: list[object] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)
    values: dict[str, Any] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    state: set[str] = field(default_factory=set)
    classes: list[type] = field(default_factory=list)
    _seen: dict[int, object] = field(default_factory=dict)  # kept alive, so that no other value gets its number
    _used_modules: dict[str, ModuleType] = field(default_factory=dict)

    def run(self) -> None:
        """Follow what waits; new names of attributes may reach more of earlier classes and modules."""
        sizes = (-1, -1, -1)
        while sizes != (now := (len(self.attributes), len(self.classes), len(self._used_modules))):
            sizes = now
            for owner in self.classes:
                self.waiting += [value for name, value in vars(owner).items() if self._is_used(name)]
            for module in self._used_modules.values():
                for name in self.attributes & vars(module).keys():
                    self._read(module, name, foreign=True)
            while self.waiting:
                self.follow(self.waiting.pop())

    def _is_used(self, name: str) -> bool:
        return name in self.attributes or (name.startswith("__") and name.endswith("__"))

    def follow(self, value: Any) -> None:
        """Note what one value reaches."""
        if id(value) in self._seen or value is None or isinstance(value, (str, bytes, int, float)):
            return
        self._seen[id(value)] = value
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, ModuleType):
            if self.counts(value.__name__):
                self._used_modules[value.__name__] = value
        elif isinstance(value, (MethodType, staticmethod, classmethod)):
            self.waiting += [value.__func__, getattr(value, "__self__", None)]
        elif isinstance(value, property):
            self.waiting += [value.fget, value.fset]
        elif isinstance(value, functools.cached_property):
            self.waiting.append(value.func)
        elif isinstance(value, (functools.partial, functools.partialmethod)):
            self.waiting += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, (tuple, list)):
            self.waiting += value
        elif isinstance(value, dict):
            self.waiting += value.values()
        elif not isinstance(value, BuiltinFunctionType):
            self.waiting += [type(value), getattr(type(value), "__wrapped__", None), _inner(value)]

    def _function(self, function: FunctionType) -> None:
        self.waiting.append(_inner(function))
        for cell in function.__closure__ or ():
            try:
                self.waiting.append(cell.cell_contents)
            except ValueError:  # an empty cell
                continue
        self.waiting += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        module = sys.modules.get(function.__globals__.get("__name__", ""))
        if module is None or not self.counts(module.__name__):
            return
        self.modules.add(module.__name__)
        names = _names_of(function.__code__)
        self.attributes |= names.attributes
        self.assigned |= names.assigned
        if function.__name__ not in _CONSTRUCTORS:
            self.assigned |= names.assigned_to_self
        if function.__name__ not in _COMPARISONS:
            self.state |= names.attributes
        self.stored |= {f"{module.__name__}:{name}" for name in names.stored}
        for name in names.read & vars(module).keys():
            self._read(module, name)
        for level, name in names.imported:
            self._imported(module, level, name, names)

    def _imported(self, module: ModuleType, level: int, name: str, names: _Names) -> None:
        package = getattr(module, "__package__", None) or module.__name__
        try:
            whole = importlib.util.resolve_name("." * level + name, package) if level else name
        except ImportError:
            return
        parts = whole.split(".")
        for end in range(1, len(parts) + 1):
            self.waiting.append(sys.modules.get(".".join(parts[:end])))
        target = sys.modules.get(whole)
        if target is not None and self.counts(whole):
            self.modules.add(whole)  # an import of it for its effects is a use, too
            for used in names.attributes:
                self.waiting.append(sys.modules.get(f"{whole}.{used}"))

    def _class(self, owner: type) -> None:
        if self.counts(str(owner.__module__)):
            self.modules.add(str(owner.__module__))
            self.classes.append(owner)
        self.waiting += [base for base in owner.__mro__ if base is not owner and base is not object]

    def _read(self, module: ModuleType, name: str, *, foreign: bool = False) -> None:
        """Note a global, which code of its own module reads, or another's as an attribute of the module."""
        value = vars(module)[name]
        if not (name.startswith("__") and name.endswith("__")) and not isinstance(value, ModuleType):
            self.values[f"{module.__name__}:{name}"] = value
            if foreign:
                self.modules.add(module.__name__)
        self.waiting.append(value)


def _inner(value: Any) -> Any:
    """What a wrapper wraps; None for what answers to every name."""
    try:
        return vars(value).get("__wrapped__")
    except TypeError:
        return getattr(value, "__wrapped__", None) if isinstance(value, functools._lru_cache_wrapper) else None


@functools.cache
def _names_of(code: CodeType) -> _Names:
    read, stored, attributes, imported = set(), set(), set(), set()
    assigned: set[str] = set()
    to_self: set[str] = set()
    for part in _codes(code):
        constants: list[Any] = []
        owner: tuple[Any, ...] = ()
        for step in dis.get_instructions(part):
            if step.opname.startswith("LOAD_CONST") or step.opname == "LOAD_SMALL_INT":
                constants.append(step.argval)
            elif step.opname in _GLOBALS:
                read.add(step.argval)
            elif step.opname in _ATTRIBUTES:
                attributes.add(step.argval)
            elif step.opname == "STORE_GLOBAL":
                stored.add(step.argval)
            elif step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                (to_self if owner == part.co_varnames[:1] else assigned).add(step.argval)
            elif step.opname == "IMPORT_NAME":
                level = constants[-2] if len(constants) > 1 and isinstance(constants[-2], int) else 0
                imported.add((level, step.argval))
            # One instruction may load two variables: the second is on top.
            owner = step.argval[-1:] if isinstance(step.argval, tuple) else (step.argval,)
    return _Names(*map(frozenset, (read, stored, attributes, assigned, to_self, imported)))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
