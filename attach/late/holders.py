"""Holders: what in this process has taken a value that a hook would replace."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import FrameType, ModuleType
from typing import Any

_FROZEN_AT_START = 1000  # Python 3.12 starts with some hundreds; a program that freezes has ten thousands
Held = tuple[object, str, Any]
"""The namespace that a hook changes, the path of the value in it, and the value."""


def if_imported(module: str) -> str | None:
    """The reason of a seam that has no effect on what its module has done already.

    >>> if_imported("json"), if_imported("no_such_module")
    ('json is already imported', None)
    """
    return f"{module} is already imported" if module in sys.modules else None


def if_held(values: Iterable[Held]) -> str | None:
    """The reason of a seam that replaces these values: something else than their own namespaces holds one of them.

    >>> home = ModuleType("home")
    >>> home.run = lambda: None
    >>> kept = [home.run]
    >>> if_held([(vars(home), "home:run", home.run)])
    'an object of type list has taken home:run already'
    """
    listed = list(values)  # exhausted, so that no generator holds a value
    homes: dict[int, set[int]] = {}
    paths: dict[int, str] = {}
    for home, path, value in listed:
        homes.setdefault(id(value), set()).add(id(home))
        paths[id(value)] = path
    originals = [value for _, _, value in listed]
    own = {id(originals), *map(id, listed)}
    for holder in _referrers(originals) if originals else ():
        if id(holder) in own or isinstance(holder, FrameType):
            continue
        for value in gc.get_referents(holder):
            if id(value) in homes and id(holder) not in homes[id(value)]:
                return f"{_name_of(holder)} has taken {paths[id(value)]} already"
    return None


def _referrers(values: list[Any]) -> list[Any]:
    """What refers to one of the values, also among objects that ``gc.freeze`` has set aside: engines freeze all that
    they have loaded, and the collector does not search it."""
    frozen = gc.get_freeze_count() > _FROZEN_AT_START
    if frozen:
        gc.unfreeze()
    try:
        return gc.get_referrers(*values)
    finally:
        if frozen:
            gc.freeze()


def _name_of(holder: Any) -> str:
    """The module whose namespace this is, or the kind of any other object."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and vars(module) is holder:
            return name
    return f"an object of type {type(holder).__name__}"
