"""What a compile function returned: one compiled object, a structure of several and plain values, or anything else.

The builder stores it beside the objects, and a seam returns the same structure to the library around a cache's kernels.
It is written as ``contract.recordings.keys`` writes values; ``["$made:kernel"]`` stands for the first kernel, and
``["$made:kernel", 1]`` for the second. Nothing is stored where the object itself was returned.

A function's first object is stored under its op, each further one under a name of its own below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.loader.contract.recordings.key_reader import decode
from precast.loader.contract.recordings.keys import UnknownKey, encode
from precast.loader.contract.recordings.provenance import OBJECTS
from precast.loader.errors import FormatError

WRAPPED = "wrapped"
"""The function returned something that has no plain form, such as a closure: only the function itself can make it."""

MOST = 64
"""How many objects one call of a compile function may compile."""

_KERNEL = "kernel"


def numbered(name: str, number: int, separator: str = ".") -> str:
    """The name of a function's object, by its number from 0 on.

    >>> numbered("attach.mine.compiled", 0), numbered("attach.mine.compiled", 1)
    ('attach.mine.compiled', 'attach.mine.compiled.object1')
    """
    return f"{name}{separator}object{number}" if number else name


def first_op(op: str) -> str:
    """The op of the first object of the same function.

    >>> first_op("attach.quack.softmax_ab12.object1"), first_op("acme.split.main")
    ('attach.quack.softmax_ab12', 'acme.split.main')
    """
    first, _, last = op.rpartition(".")
    further = op.startswith("attach.") and op.count(".") == 3 and last.startswith("object")
    return first if further and last[6:].isdecimal() else op


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


def count_of(provenance: Mapping[str, Any]) -> int:
    """How many objects the function compiled, by the provenance of an artifact of it.

    >>> count_of({}), count_of({"objects": 2})
    (1, 2)
    """
    count = provenance.get(OBJECTS, 1)
    if type(count) is not int or not 1 <= count <= MOST:
        raise FormatError(f"{count!r:.20} is not a number of objects: rebuild the cache", OBJECTS)
    return count


def parse_structure(value: object) -> Any:
    """Check a form that was read; what ``structure_of`` returns passes.

    >>> parse_structure("wrapped")
    'wrapped'
    """
    if value is None or value == WRAPPED or isinstance(value, list):
        return value
    raise FormatError(f"{value!r:.80} is not what a compile function returned: rebuild the cache")
