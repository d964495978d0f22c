"""Companions in a process that attaches: their files are placed before the engine is imported, once for all processes.

``PRECAST_COMPANIONS`` names the folder, or is ``off``. Processes that this one starts inherit the variables, and
``PRECAST_COMPANIONS_PLACED``, by which they know that nothing is left to do: an engine changes some of the variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from precast.loader.errors import PrecastError
from precast.loader.locks import IMPORT_LOCK
from precast.loader.resolve.discover import discover

VARIABLE = "PRECAST_COMPANIONS"
DONE = "PRECAST_COMPANIONS_PLACED"


class CompanionLeftOut(PrecastError, RuntimeError):
    """In mode ``frozen``, files of a companion do not fit this machine, or cannot be placed."""

    code = "PCA06"


def place_companions(*, frozen: bool) -> tuple[str, ...]:
    """Place the companions of all caches and set the variables of this process that name their folders.

    What does not fit is reported on standard error, and compiled as before; it is an error if ``frozen``. Where two
    caches have files of one companion, those of the cache that is searched first are taken. Returns the report.
    """
    if os.environ.get(VARIABLE) == "off" or DONE in os.environ:
        return ()
    having = [d.cache for d in discover() if d.cache is not None and d.cache.index.companions is not None]
    if not having:
        return ()
    with IMPORT_LOCK:
        from precast.attach.companions.machine_facts import Machine
        from precast.attach.companions.placement import place_files
    machine, root = Machine(), folder_of_user(os.environ)
    placed: list[str] = []
    left_out: list[str] = []
    for cache in having:
        placement = place_files(cache, root, machine.facts, os.environ)
        os.environ.update(placement.variables)
        placed += map(str, placement.placed)
        left_out += map(str, placement.left_out)
    os.environ[DONE] = "1"
    for reason in left_out:
        print(f"precast: {reason}", file=sys.stderr)
    if frozen and left_out:
        del os.environ[DONE]  # a further import is refused, too
        raise CompanionLeftOut(
            "\n".join(left_out) + "\nrecord the start again on such a machine (precast start record), or set"
            f" {VARIABLE}=off to start without these files"
        )
    return (*placed, *left_out)


def folder_of_user(environment: Mapping[str, str]) -> Path:
    """The folder for companions' files: ``PRECAST_COMPANIONS``, else one in the user's cache.

    >>> str(folder_of_user({"HOME": "/home/me"}))
    '/home/me/.cache/precast/companions'
    """
    named = environment.get(VARIABLE)
    if named:
        return Path(named).absolute()
    caches = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME") or "~", ".cache")
    return Path(os.path.expanduser(caches), "precast", "companions").absolute()
