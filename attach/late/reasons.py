"""Reasons: why a library that is imported already can no longer be attached."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from precast.attach.library import KernelSource, Library
from precast.loader.contract.import_hook import imported_below


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


def _names(module: ModuleType, variable: str) -> bool:
    """Whether a module's file names a variable; one whose file cannot be read may."""
    try:
        return variable.encode() in Path(str(module.__file__)).read_bytes()
    except OSError:
        return True
