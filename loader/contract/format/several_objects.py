"""Functions that compile several objects, under the ops of one: a compile function of an attached library may do so.

The first object is stored under the function's op, each further one under a name of its own below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.loader.errors import FormatError

OBJECTS = "objects"
"""The name in the provenance: how many objects the function compiled, if several."""

MOST = 64
"""How many objects one call of a compile function may compile."""


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


def count_of(provenance: Mapping[str, Any]) -> int:
    """How many objects the function compiled, by the provenance of an artifact of it.

    >>> count_of({}), count_of({"objects": 2})
    (1, 2)
    """
    count = provenance.get(OBJECTS, 1)
    if type(count) is not int or not 1 <= count <= MOST:
        raise FormatError(f"{count!r:.20} is not a number of objects: rebuild the cache", OBJECTS)
    return count
