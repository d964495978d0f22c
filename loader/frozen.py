"""Values: frozen, slotted dataclasses that cost next to nothing to define.

``dataclasses`` writes and compiles the source of six methods for every class, at every import: 0.8 ms a class, which
was most of what the loader took to import. Values share their methods instead. They are dataclasses in all else:
``replace``, ``fields`` and ``asdict`` work on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[Any], Any]:
        """What tells type checkers that ``frozen`` makes dataclasses."""
        return lambda made: made


T = TypeVar("T")


class _Slot(NamedTuple):
    """A field: how it is set past the freeze, and what it is where nothing is given."""

    name: str
    put: Callable[[object, object], None]
    default: Any
    factory: Any


class _Shape(NamedTuple):
    """All fields of a class, those that go by position, and the ones that count when two are compared."""

    slots: tuple[_Slot, ...]
    positional: tuple[str, ...]
    compared: Callable[[Any], Any]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(*, kw_only: bool = False, eq: bool = True, order: bool = False) -> Callable[[type[T]], type[T]]:
    """A decorator that makes a class a frozen, slotted dataclass.

    Parameters
    ----------
    kw_only
        Whether fields are given by name only.
    eq
        Whether equal fields make equal values; else each is equal to itself alone.
    order
        Whether they are ordered, as the tuples of their fields.

    Examples
    --------
    >>> @frozen()
    ... class Point:
    ...     '''A place in the plane.'''
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), {Point(2, y=3)}
    (Point(x=1, y=0), True, {Point(x=2, y=3)})
    """

    def make(cls: type[T]) -> type[T]:
        made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
        known = fields(made)
        made.__shape__ = _Shape(
            slots=tuple([_Slot(f.name, getattr(made, f.name).__set__, f.default, f.default_factory) for f in known]),
            positional=tuple([f.name for f in known if f.init and not f.kw_only]),
            compared=attrgetter(*[f.name for f in known if f.compare]),
        )
        methods = {**_SHARED, **(_EQUAL if eq else {}), **(_ORDERED if order else {})}
        for name, method in methods.items():
            if name not in cls.__dict__:
                setattr(made, name, method)
        return made  # type: ignore[no-any-return]

    return make


def _init(self: Any, *args: object, **named: object) -> None:
    shape: _Shape = self.__shape__
    given = dict(zip(shape.positional, args))  # noqa: B905 - too many are refused below
    if len(args) > len(given) or not given.keys().isdisjoint(named):
        raise TypeError(f"{type(self).__name__} takes {', '.join(shape.positional)} by position, each field once")
    given.update(named)
    for name, put, default, factory in shape.slots:
        if name in given:
            put(self, given.pop(name))
        elif default is not MISSING:
            put(self, default)
        elif factory is not MISSING:
            put(self, factory())
        else:
            raise TypeError(f"{type(self).__name__} needs {name}")
    if given:
        raise TypeError(f"{type(self).__name__} has no {', '.join(given)}")


def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_set(self: object, name: str, to: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: Any) -> Any:
    return _restored, (type(self), tuple(getattr(self, slot.name) for slot in self.__shape__.slots))


def _restored(cls: Any, values: tuple[object, ...]) -> Any:
    """A copy, for ``copy`` and its like: they would set fields, which are frozen."""
    made = object.__new__(cls)
    for slot, one in zip(cls.__shape__.slots, values, strict=True):
        slot.put(made, one)
    return made


def _eq(self: Any, other: Any) -> Any:
    return (
        self.__shape__.compared(self) == self.__shape__.compared(other) if type(self) is type(other) else NotImplemented
    )


def _hash(self: Any) -> int:
    return hash(self.__shape__.compared(self))


def _lt(self: Any, other: Any) -> Any:
    return (
        self.__shape__.compared(self) < self.__shape__.compared(other) if type(self) is type(other) else NotImplemented
    )


def _le(self: Any, other: Any) -> Any:
    return (
        self.__shape__.compared(self) <= self.__shape__.compared(other) if type(self) is type(other) else NotImplemented
    )


_SHARED = {
    "__init__": _init,
    "__repr__": _repr,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__reduce__": _reduce,
}
_EQUAL = {"__eq__": _eq, "__hash__": _hash}
_ORDERED = {"__lt__": _lt, "__le__": _le}  # Python turns these about for > and >=
