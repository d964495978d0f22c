"""Attaching late: whether a library that is imported already can still be attached.

An engine loads its plug-ins when it is imported already. A hook that is installed then replaces an attribute of a
module. It is seen by every later call that reads this attribute, and by none that kept the old value: under another
module's name, in a table, in a class, in a closure. So the rule is: a value can be replaced late where nothing but its
own module, or its class, holds it. The garbage collector lists every holder; a search of modules would miss tables.
A refusal changes nothing: all seams are checked before the first is installed.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from precast.loader.attach.import_hook import imported_below
from precast.loader.attach.library import KernelSource, Library

Held = tuple[object, str, Any]
"""The namespace that a hook changes, the path of the value in it, and the value."""


def reason_against(library: Library, attachment: KernelSource, *, placeholders: bool = False) -> str | None:
    """Why a library can no longer be attached; None where it can.

    Parameters
    ----------
    library
        The library.
    attachment
        What its seams would be installed for.
    placeholders
        Whether placeholders for the DSL's names would be installed now: modules that are imported already did
        without them.
    """
    imported = imported_below(library.package)
    for name, module in imported.items():
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            return f"{name} is being imported"
        if placeholders:
            return f"{name} is already imported, without the names of the DSL"
    for variable in (variable for variable in library.environment if variable not in os.environ):
        reader = next((name for name, module in imported.items() if _names(module, variable)), None)
        if reader is not None:
            return f"{reader} is already imported, and may have read {variable}, which was not set"
    return next(filter(None, (seam.late(attachment, library) for seam in library.seams)), None)


def if_imported(module: str) -> str | None:
    """The reason of a seam that has no effect on what its module has done already.

    >>> if_imported("json"), if_imported("no_such_module")
    ('json is already imported', None)
    """
    return f"{module} is already imported" if module in sys.modules else None


def if_held(values: Iterable[Held]) -> str | None:
    """The reason of a seam that replaces these values: something else than their own namespaces holds one of them.

    >>> import json
    >>> if_held([(vars(json.decoder), "json.decoder:JSONDecodeError", json.decoder.JSONDecodeError)])
    'json has taken json.decoder:JSONDecodeError already'
    """
    listed = list(values)  # exhausted, so that no generator holds a value
    homes: dict[int, set[int]] = {}
    paths: dict[int, str] = {}
    for home, path, value in listed:
        homes.setdefault(id(value), set()).add(id(home))
        paths[id(value)] = path
    originals = [value for _, _, value in listed]
    own = {id(originals), *map(id, listed)}
    for holder in gc.get_referrers(*originals) if originals else ():
        if id(holder) in own or isinstance(holder, FrameType):
            continue
        for value in gc.get_referents(holder):
            if id(value) in homes and id(holder) not in homes[id(value)]:
                return f"{_name_of(holder)} has taken {paths[id(value)]} already"
    return None


def _names(module: ModuleType, variable: str) -> bool:
    """Whether a module's file names a variable; one whose file cannot be read may."""
    try:
        return variable.encode() in Path(str(module.__file__)).read_bytes()
    except OSError:
        return True


def _name_of(holder: Any) -> str:
    """The module whose namespace this is, or the kind of any other object."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and vars(module) is holder:
            return name
    return f"an object of type {type(holder).__name__}"
