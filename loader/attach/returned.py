"""What a compile function returned: the compiled object alone, a structure of it and plain values, or anything else.

The builder notes it beside the object, and a seam gives the library the same again around a cache's kernel. It is
written as ``precast.loader.attach.keys`` writes values; ``["$made:kernel"]`` stands for the kernel. Nothing is noted
where the object itself was returned.
"""

from __future__ import annotations

from typing import Any

from precast.loader.attach.keys import UnknownKey, decode, encode
from precast.loader.errors import FormatError

WRAPPED = "wrapped"
"""The function returned something that has no plain form, such as a closure: only the function itself can make it."""

PROVENANCE = "returns"
"""The name in an artifact's provenance."""

_KERNEL = "kernel"


def structure_of(returned: object, compiled: object) -> Any:
    """The form of what a function returned around the one object that it compiled; None for the object itself.

    >>> compiled = object()
    >>> structure_of(compiled, compiled), structure_of((compiled, 8), compiled), structure_of(lambda: 0, compiled)
    (None, [['$made:kernel'], 8], 'wrapped')
    """
    if returned is compiled:
        return None
    if not isinstance(returned, (tuple, list)):
        return WRAPPED
    places = []

    def describe(value: Any) -> tuple[str, tuple[Any, ...]] | None:
        if value is not compiled:
            return None
        places.append(value)
        return _KERNEL, ()

    try:
        form = encode(returned, describe=describe)
    except UnknownKey:
        return WRAPPED
    return form if places else WRAPPED


def rebuilt(form: Any, kernel: object) -> Any:
    """The structure of a form around another kernel.

    >>> rebuilt([["$made:kernel"], 8], "k")
    ('k', 8)
    """
    try:
        return decode(form, makers={_KERNEL: lambda: kernel})
    except (UnknownKey, ImportError, AttributeError, TypeError, ValueError) as error:
        raise FormatError(
            f"what the library's function returned cannot be made again: {error}; build the cache anew"
        ) from error


def parse_structure(value: object) -> Any:
    """Check a form that was read; what ``structure_of`` gives passes.

    >>> parse_structure("wrapped")
    'wrapped'
    """
    if value is None or value == WRAPPED or isinstance(value, list):
        return value
    raise FormatError(f"{value!r:.80} is not what a compile function returned: build the cache anew")
