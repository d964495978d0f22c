"""The selection of the objects of a variant among those that a call compiled.

A library may compile helpers as well. If a function returns compiled objects, these are the variant's. If it returns
anything else, all objects that it compiled are. ``attached.seam_objects``
selects those of an attached library.
"""

from __future__ import annotations

from collections.abc import Sequence

from precast.build.child.compiler.capture import Caught
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
