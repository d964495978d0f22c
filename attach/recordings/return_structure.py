"""What a compile function returned: one compiled object, a structure of several and plain values, or anything else.

The builder stores it beside the objects, and a seam returns the same structure to the library around a cache's kernels.
It is written as ``recordings.keys`` writes values; ``["$made:kernel"]`` stands for the first kernel, and
``["$made:kernel", 1]`` for the second. Nothing is stored where the object itself was returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from precast.attach.recordings.key_reader import decode
from precast.attach.recordings.keys import UnknownKey, encode
from precast.loader.errors import FormatError

WRAPPED = "wrapped"
"""The function returned something that has no plain form, such as a closure: only the function itself can make it."""

_KERNEL = "kernel"


def structure_of(returned: object, compiled: Sequence[object]) -> tuple[Any, tuple[object, ...]]:
    """The form of what a function returned, None for an object itself; and the objects in it, in the form's order.

    Objects that the function compiled and did not return are its helpers, unless it returned something without a form:
    then all of them belong to it.

    >>> one, two = object(), object()
    >>> structure_of((two, 8, [one, two]), [one, two])[0]
    [['$made:kernel'], 8, ['$list', ['$made:kernel', 1], ['$made:kernel']]]
    >>> structure_of(lambda: 0, [one])[0], structure_of(one, [one])[0]
    ('wrapped', None)
    """
    alone = next((item for item in compiled if item is returned), None)
    if alone is not None:
        return None, (alone,)
    if not isinstance(returned, (tuple, list, dict)):
        return WRAPPED, tuple(compiled)
    kernels: list[object] = []

    def describe(value: Any) -> tuple[str, tuple[Any, ...]] | None:
        if not any(item is value for item in compiled):
            return None
        if not any(item is value for item in kernels):
            kernels.append(value)
        number = next(position for position, item in enumerate(kernels) if item is value)
        return _KERNEL, (number,) if number else ()

    try:
        form = encode(returned, describe=describe)
    except UnknownKey:
        return WRAPPED, tuple(compiled)
    return (form, tuple(kernels)) if kernels else (WRAPPED, tuple(compiled))


def rebuilt(form: Any, kernels: Sequence[object], package: str) -> Any:
    """The structure of a form around other kernels. Types that it names must be in this package: no other is imported.

    >>> rebuilt([["$made:kernel"], 8], ["k"], "quack")
    ('k', 8)
    """

    def kernel(number: Any = 0) -> object:
        if type(number) is not int or not 0 <= number < len(kernels):
            raise UnknownKey(f"there is no kernel {number!r:.20}: the artifact has {len(kernels)}")
        return kernels[number]

    try:
        return decode(form, makers={_KERNEL: kernel}, package=package)
    except UnknownKey as error:
        raise FormatError(f"cannot make what the library's function returned: {error}; rebuild the cache") from error


def parse_structure(value: object) -> Any:
    """Check a form that was read; what ``structure_of`` returns passes.

    >>> parse_structure("wrapped")
    'wrapped'
    """
    if value is None or value == WRAPPED or isinstance(value, list):
        return value
    raise FormatError(f"{value!r:.80} is not what a compile function returned: rebuild the cache")
