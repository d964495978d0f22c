"""The types within arguments: ``(1, 2)`` and ``(True, 2)`` are equal, and are different keys."""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Callable, Mapping
from typing import Any

_MARSHAL = 2  # the last version whose bytes do not depend on how often a value is referred to

Types = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]
"""A function of equal arguments whose results differ where the types of the values within them do."""


def types_within(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Types | None:
    """A function for arguments that equal these, by the types within them; None where they hold no other values.

    >>> types = types_within((8, (1, 2)), {})
    >>> types((8, (1, 2)), {}) == types((8, (True, 2)), {}), types_within((8, "x"), {})
    (False, None)
    """
    positions = [position for position, value in enumerate(args) if _is_composite(value)]
    names = [name for name, value in kwargs.items() if _is_composite(value)]
    if not positions and not names:
        return None

    def types(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if not names:
            try:  # for speed, where all within are plain values; each alone, since longer texts take far longer
                return [marshal.dumps(args[position], _MARSHAL) for position in positions]
            except ValueError:
                pass
        return [*(_types(args[position]) for position in positions), *(_types(kwargs[name]) for name in names)]

    return types


def _is_composite(value: Any) -> bool:
    return isinstance(value, (tuple, frozenset)) or _is_dataclass(value)


def _types(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, (tuple, frozenset)):
        return kind, *map(_types, value)
    if _is_dataclass(value):
        return kind, *(_types(getattr(value, field.name)) for field in dataclasses.fields(value))
    return kind


def _is_dataclass(value: Any) -> bool:
    return hasattr(type(value), "__dataclass_fields__")
