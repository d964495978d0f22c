"""Patches: what an import changed in modules that were there before, the compiler's among them.

A library may replace functions of the DSL, or add methods to its classes. A process in which that has happened compiles
a kernel that does not import the library in another way than one of its own does. So the imports of such a process are
not shared with other kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

_ABSENT = object()
_COMPILER = frozenset({"cutlass", "nvidia_cutlass_dsl", "tvm_ffi", "cuda"})
_OTHERS = frozenset({"torch", "torch.cuda", "numpy"})  # what kernels' modules query most
# Thousands of generated classes, and switches that the compiler itself sets: here only what the modules have counts.
_GENERATED = ("cutlass._mlir", "cuda.bindings")
_NO_PATCHES = frozenset(
    {
        "__abstractmethods__", "_abc_impl", "__annotations__", "__annotations_cache__", "__dict__", "__doc__",
        "__static_attributes__", "__warningregistry__", "__weakref__",
    }
)  # fmt: skip
Members = tuple[str, Mapping[str, Any], dict[str, Any]]  # the owner's name, its members now, and those of before


class Patches:
    """The state of the compiler's modules and classes at a moment, to compare with.

    >>> from types import FunctionType, ModuleType
    >>> module = sys.modules["cutlass.made_up"] = ModuleType("cutlass.made_up")
    >>> patches = Patches()
    >>> module.size = FunctionType((lambda: 1).__code__, {"__name__": "acme"})
    >>> patches.changes()
    ('cutlass.made_up.size, by acme',)
    >>> del sys.modules["cutlass.made_up"]
    """

    def __init__(self) -> None:
        seen: set[int] = set()  # classes: many modules have the same one
        self._before: list[Members] = [
            (name, members, dict(members))
            for module, value in list(sys.modules.items())
            if type(value) is ModuleType and _counts(module)
            for name, members in _members(module, vars(value), seen)
        ]

    def changes(self) -> tuple[str, ...]:
        """What code of other packages has replaced, added or removed since, with the module of the new code."""
        changes: list[str] = []
        for name, members, before in self._before:
            if len(members) != len(before) or any(before.get(n, _ABSENT) is not v for n, v in list(members.items())):
                changes += _changed(name, dict(members), before)
        return tuple(sorted(changes))


def _counts(module: str) -> bool:
    return module.partition(".")[0] in _COMPILER or module in _OTHERS


def _members(name: str, members: Mapping[str, Any], seen: set[int]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The members of a module and of the classes that it defines."""
    yield name, members
    if name in _OTHERS or name.startswith(_GENERATED):
        return
    for value in list(members.values()):
        if not issubclass(type(value), type) or id(value) in seen:
            continue
        if str(value.__module__).partition(".")[0] == name.partition(".")[0]:
            seen.add(id(value))
            yield from _members(f"{value.__module__}.{value.__qualname__}", vars(value), seen)


def _changed(name: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    top = name.partition(".")[0]
    for member in now.keys() | before.keys():
        new, old = now.get(member, _ABSENT), before.get(member, _ABSENT)
        if new is old or member in _NO_PATCHES or isinstance(new, ModuleType) or isinstance(old, ModuleType):
            continue
        origin = _origin(new)
        if origin.partition(".")[0] not in (top, "precast") and (origin or not name.startswith(_GENERATED)):
            yield f"{name}.{member}" + (f", by {origin}" if origin else "")


def _origin(value: Any) -> str:
    """The module whose code a value is; empty for data. ``functools.wraps`` copies a name, but not the globals."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, partial):
        value = value.func
    if isinstance(value, FunctionType):
        return str(value.__globals__.get("__name__", ""))
    return str(getattr(value, "__module__", None) or "") if isinstance(value, type) or callable(value) else ""
