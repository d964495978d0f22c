"""What distinguishes equal arguments: ``(1, 2)`` and ``(True, 2)`` are equal, as are ``0.0`` and ``-0.0``, and are
different keys.

An object may also compare fewer fields than a kernel depends on, or be the same object with other content than before.
The encoded form of such an argument is its identity.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import marshal
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.attach.recordings.keys import UnknownKey, canonical, encode

_MARSHAL = 2  # the last version whose bytes do not depend on how often a value is referred to
_EXACT = (int, bool, str, bytes, type(None))  # equal values of one of these types are the same value
_NAMED = (type, enum.Enum, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)  # compared by identity

Identity = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]
"""A function of equal arguments whose results differ where the arguments are different keys."""


class NoIdentity(Exception):
    """An argument can neither be compared nor encoded: an answer to it cannot be kept."""


def identity_within(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Identity | None:
    """A function for arguments that equal these; None where equality and the types of the arguments are enough.

    >>> identity = identity_within((8, (1, 2)), {})
    >>> identity((8, (1, 2)), {}) == identity((8, (True, 2)), {}), identity_within((8, "x"), {})
    (False, None)
    """
    positions = _inexact(tuple(map(type, args)))
    keywords = list(kwargs)
    names = [keywords[position] for position in _inexact(tuple(map(type, kwargs.values())))]
    if not positions and not names:
        return None

    def identity(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if not names:
            try:  # for speed, where all within are plain values; each alone, since longer texts take far longer
                return [marshal.dumps(args[position], _MARSHAL) for position in positions]
            except ValueError:
                pass
        return [
            *(identity_of(args[position]) for position in positions),
            *(identity_of(kwargs[name]) for name in names),
        ]

    return identity


def identity_of(value: Any) -> Any:
    """What distinguishes a value from all values that equal it.

    >>> identity_of(0.0) == identity_of(-0.0), identity_of((1, "x")) == identity_of((1, "x"))
    (False, True)
    """
    kind: Any = type(value)
    if _is_exact(kind):
        return kind
    if kind is float:
        return value.hex()
    attributes = getattr(value, "__dict__", ())
    if isinstance(value, tuple) and not attributes:
        return kind, _identities(value)
    if kind is frozenset:
        return kind, frozenset((item, identity_of(item)) for item in value)
    names = _compared_fields(kind)
    if names is not None and len(attributes) <= len(names):
        return kind, _identities([getattr(value, name) for name in names])
    try:
        return kind, canonical(encode(value))
    except UnknownKey:
        raise NoIdentity from None


def _identities(values: Sequence[Any]) -> Any:
    """What distinguishes values from equal ones: their types, and more where types are not enough."""
    kinds = tuple(map(type, values))
    positions = _inexact(kinds)
    return (kinds, *[identity_of(values[position]) for position in positions]) if positions else kinds


@functools.lru_cache(maxsize=4096)
def _inexact(kinds: tuple[type, ...]) -> tuple[int, ...]:
    return tuple(position for position, kind in enumerate(kinds) if not _is_exact(kind))


@functools.lru_cache(maxsize=4096)
def _is_exact(kind: type) -> bool:
    """Whether equal values of this one type are the same value, or are compared by identity and do not change."""
    return kind in _EXACT or issubclass(kind, _NAMED) or (kind.__name__, kind.__module__) == ("dtype", "torch")


@functools.lru_cache(maxsize=4096)
def _compared_fields(kind: Any) -> tuple[str, ...] | None:
    """The fields of a frozen dataclass that Python has given the comparison of all of them; None for other types."""
    parameters = vars(kind).get("__dataclass_params__")
    if parameters is None or not (parameters.frozen and parameters.eq):
        return None
    code, fields = getattr(kind.__eq__, "__code__", None), dataclasses.fields(kind)
    generated = code is not None and code.co_filename == "<string>"
    compared = generated and all(field.compare and field.hash is not False for field in fields)
    return tuple(field.name for field in fields) if compared else None
