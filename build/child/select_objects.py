"""Parts: which of the objects that a call compiled are the variant's.

A library may compile helpers on the way. Where a function returns compiled objects, those are what its author means;
where it returns anything else, all that it compiled is.
"""

from __future__ import annotations

from collections.abc import Sequence

from precast.build.child.capture import Caught
from precast.loader.errors import PrecastError


class Refused(PrecastError):
    """What the function compiled is not what precast ships; the message says it all."""


class Miscounted(Refused):
    """A function compiled more or fewer objects than asked for: it may have answered out of a cache of its own."""


def select_objects(caught: Sequence[Caught], returned: object, *, source: object, expected: int) -> tuple[Caught, ...]:
    """The objects of one variant, in the order of its parts.

    >>> first, second = Caught(compiled="helper", signature=None), Caught(compiled="kernel", signature=None)
    >>> [one.compiled for one in select_objects([first, second], "kernel", source="m:f", expected=1)]
    ['kernel']
    """
    chosen = _returned(caught, returned) or tuple(caught)
    if len(chosen) != expected:
        raise Miscounted(_message(source, len(chosen), expected))
    return chosen


def _returned(caught: Sequence[Caught], returned: object) -> tuple[Caught, ...]:
    """The caught objects that were returned, alone or in a tuple; none where it holds anything else."""
    found = []
    for one in returned if isinstance(returned, (tuple, list)) else (returned,):
        match = next((c for c in caught if c.compiled is one), None)
        if match is None:
            return ()
        found.append(match)
    return tuple(found)


def _message(source: object, caught: int, expected: int) -> str:
    if not caught:
        return f"{source} compiled nothing: it must call cute.compile, once for each object"
    names = ", ".join(f"part{i}" for i in range(caught))
    return (
        f"{source} compiled {caught} objects where {expected} {'is' if expected == 1 else 'are'} expected: "
        f"make it compile exactly one, or return the one that counts, or name them in the manifest, in their order: "
        f"'parts: [{names}]'"
    )
