"""The selection of the objects of a variant among those that a call compiled.

A library may compile helpers as well. If a function returns compiled objects, these are the variant's. If it returns
anything else, all objects that it compiled are. A compile function of an attached library may return several, in any
structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from precast.build.child.compiler.capture import Caught
from precast.loader.contract.recordings.return_structure import MOST, structure_of
from precast.loader.errors import PrecastError


class Refused(PrecastError):
    """The compiled objects cannot be shipped. The message needs no traceback."""

    code = "PCB19"


def select_objects(caught: Sequence[Caught], returned: object, *, source: object, expected: int) -> tuple[Caught, ...]:
    """The objects of one variant, in the order of its parts.

    >>> first, second = Caught(compiled="helper", signature=None), Caught(compiled="kernel", signature=None)
    >>> [one.compiled for one in select_objects([first, second], "kernel", source="m:f", expected=1)]
    ['kernel']
    """
    chosen = _returned(caught, returned) or tuple(caught)
    if len(chosen) != expected:
        raise Refused(_message(source, len(chosen), expected))
    return chosen


def select_returned(caught: Sequence[Caught], returned: object, *, source: object) -> tuple[tuple[Caught, ...], Any]:
    """The objects of a compile function of an attached library, and the structure in which it returned them.

    >>> one, two = Caught(compiled=object(), signature=None), Caught(compiled=object(), signature=None)
    >>> select_returned([one, two], (two.compiled, one.compiled), source="m:f")[1]
    [['$made:kernel'], ['$made:kernel', 1]]
    """
    if not caught:
        raise Refused(f"{source} compiled nothing: record it again with the installed versions")
    form, objects = structure_of(returned, [item.compiled for item in caught])
    if len(objects) > MOST:
        raise Refused(f"{source} compiled {len(objects)} objects, more than the limit of {MOST}: remove this entry")
    return tuple(next(c for c in caught if c.compiled is item) for item in objects), form


def _returned(caught: Sequence[Caught], returned: object) -> tuple[Caught, ...]:
    """The caught objects that were returned, alone or in a tuple; none if the tuple has anything else."""
    matches = []
    for item in returned if isinstance(returned, (tuple, list)) else (returned,):
        match = next((c for c in caught if c.compiled is item), None)
        if match is None:
            return ()
        matches.append(match)
    return tuple(matches)


def _message(source: object, caught: int, expected: int) -> str:
    if not caught:
        return f"{source} compiled nothing: it must call cute.compile, once for each object"
    names = ", ".join(f"part{i}" for i in range(caught))
    return (
        f"{source} compiled {caught} objects where {expected} {'is' if expected == 1 else 'are'} expected: "
        f"make it compile exactly one, or return the kernel's object, or name all in the manifest, in their order: "
        f"'parts: [{names}]'"
    )
