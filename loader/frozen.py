"""Values: frozen, slotted dataclasses that cost next to nothing to define.

``dataclasses`` writes and compiles the source of six methods for every class, at every import: 0.8 ms a class, which
would be most of the import of the loader. Values share their methods instead. They are dataclasses in all else:
``replace``, ``fields`` and ``asdict`` work on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[Any], Any]:
        """What tells type checkers that ``frozen`` makes dataclasses."""
        return lambda made: made


T = TypeVar("T")


class _Shape:
    """What the shared methods know of a class."""

    __slots__ = ("compared", "positional", "shown", "slots", "specs")

    slots: list[tuple[str, Callable[[object, object], None], object, Any]]  # name, setter, default, factory
    positional: tuple[str, ...]
    shown: list[str]
    compared: Callable[[Any], Any]
    specs: dict[str, object]


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
        body = {**_SHARED, **(_EQUAL if eq else {}), **(_ORDERED if order else {}), **cls.__dict__}
        del body["__dict__"], body["__weakref__"]  # of the class without slots
        names = list(cls.__annotations__)
        specs = {name: body.pop(name) for name in names if name in body}
        fields = {name: spec for name, spec in specs.items() if isinstance(spec, Field)}
        body["__slots__"] = tuple(names)
        body["__shape__"] = shape = _Shape()
        body["__dataclass_fields__"] = _Fields()
        shape.specs = specs
        shape.positional = body["__match_args__"] = () if kw_only else tuple(names)
        shape.shown = [name for name in names if name not in fields or fields[name].repr]
        shape.compared = attrgetter(*[name for name in names if name not in fields or fields[name].compare])
        made: Any = type(cls.__name__, cls.__bases__, body)
        made.__qualname__ = cls.__qualname__
        shape.slots = []
        for name in names:
            spec = fields.get(name)
            default = spec.default if spec else specs.get(name, MISSING)
            shape.slots.append((name, made.__dict__[name].__set__, default, spec.default_factory if spec else MISSING))
        return made  # type: ignore[no-any-return]

    return make


def replace(old: T, **changes: object) -> T:
    """The same value with some fields changed, as ``dataclasses.replace`` makes it; this one is quicker.

    >>> from precast.loader.target import Target
    >>> replace(Target(9, 0), suffix="a")
    Target(major=9, minor=0, suffix='a')
    """
    shape: _Shape = type(old).__shape__  # type: ignore[attr-defined]
    return type(old)(**{**{name: getattr(old, name) for name, *_ in shape.slots}, **changes})


class _Fields:
    """What ``dataclasses`` looks for in a class, made when it looks."""

    def __get__(self, instance: object, cls: Any) -> Any:
        body = {"__doc__": "", "__annotations__": cls.__annotations__, **cls.__shape__.specs}
        plain: Any = dataclass(init=False, repr=False, eq=False)(type(cls.__name__, (), body))
        cls.__dataclass_fields__ = plain.__dataclass_fields__
        return cls.__dataclass_fields__


def _init(self: Any, *args: object, **named: object) -> None:
    shape: _Shape = self.__shape__
    if args:
        given = dict(zip(shape.positional, args))  # noqa: B905 - too many are refused below
        if len(args) > len(given) or not given.keys().isdisjoint(named):
            raise TypeError(f"{type(self).__name__} takes {len(shape.positional)} fields by position, each field once")
        named.update(given)
    for name, put, default, factory in shape.slots:
        one = named.pop(name, default)
        if one is MISSING:
            if factory is MISSING:
                raise TypeError(f"{type(self).__name__} needs the field {name!r}")
            one = factory()
        put(self, one)
    if named:
        raise TypeError(f"{type(self).__name__} has no field {next(iter(named))!r}")


def _repr(self: Any) -> str:
    shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__shape__.shown])
    return f"{type(self).__qualname__}({shown})"


def _refuse_set(self: object, name: str, to: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: Any) -> Any:
    return _restored, (type(self), tuple([getattr(self, slot[0]) for slot in self.__shape__.slots]))


def _restored(cls: Any, values: tuple[object, ...]) -> Any:
    """A copy, for ``copy`` and its like: they would set fields, which are frozen."""
    made = object.__new__(cls)
    for slot, one in zip(cls.__shape__.slots, values, strict=True):
        slot[1](made, one)
    return made


def _eq(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    compared = self.__shape__.compared
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(self.__shape__.compared(self))


def _lt(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    compared = self.__shape__.compared
    return compared(self) < compared(other)


def _le(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    compared = self.__shape__.compared
    return compared(self) <= compared(other)


_SHARED: dict[str, Any] = {
    "__init__": _init,
    "__repr__": _repr,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__reduce__": _reduce,
}
_EQUAL = {"__eq__": _eq, "__hash__": _hash}
_ORDERED = {"__lt__": _lt, "__le__": _le}  # Python turns these about for > and >=
