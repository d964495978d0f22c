"""Values: frozen, slotted dataclasses that are cheap to define.

``dataclasses`` writes and compiles the source of six methods for every class, at every import: 0.8 ms a class, which
would be most of the import of the loader. Values inherit their methods instead, and what these know of a class is
gathered when its first value is made. In all else they are dataclasses: ``replace``, ``fields`` and ``asdict`` work on
them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeVar

    from typing_extensions import dataclass_transform

    T = TypeVar("T")
else:

    def dataclass_transform(**_: object) -> Callable[[Any], Any]:
        """Declares to type checkers that ``frozen`` makes dataclasses."""
        return lambda cls: cls


class _Shape:
    """What the shared methods know of a class."""

    __slots__ = ("compared", "count", "positional", "puts", "shown", "slots")

    def __init__(self, cls: Any) -> None:
        names, specs = list(cls.__slots__), cls.__specs__
        fields = {name: spec for name, spec in specs.items() if isinstance(spec, Field)}
        self.positional: tuple[str, ...] = cls.__match_args__
        self.shown = [name for name in names if name not in fields or fields[name].repr]
        compared = [name for name in names if name not in fields or fields[name].compare]
        self.compared: Callable[[Any], Any] = attrgetter(*compared) if compared else _nothing
        self.slots: list[tuple[str, Callable[[object, object], None], object, Any]] = []  # with default and factory
        for name in names:
            spec = fields.get(name)
            default = spec.default if spec else specs.get(name, MISSING)
            self.slots.append((name, cls.__dict__[name].__set__, default, spec.default_factory if spec else MISSING))
        self.count = len(names)
        self.puts = [(name, put) for name, put, _, _ in self.slots]


def _nothing(value: object) -> tuple[()]:
    """What is compared of a value without fields."""
    return ()


class _OfClass:
    """A fact about a class, computed when it is first read."""

    def __init__(self, name: str, find: Callable[[Any], Any]) -> None:
        self.name, self.find = name, find

    def __get__(self, instance: object, cls: Any) -> Any:
        fact = self.find(cls)
        setattr(cls, self.name, fact)
        return fact


def _dataclass_fields(cls: Any) -> Any:
    """What ``dataclasses`` looks for in a class."""
    if not cls.__slots__:
        raise AttributeError("__dataclass_fields__")  # the base of all values is not a dataclass
    body = {"__doc__": "", "__annotations__": cls.__annotations__, **cls.__specs__}
    plain: Any = dataclass(init=False, repr=False, eq=False)(type(cls.__name__, (), body))
    return plain.__dataclass_fields__


def _unevaluated(body: dict[str, Any]) -> dict[str, Any]:
    """The annotations in the body of a class, which Python keeps as a function since 3.14.

    Not so in modules that ask for them as text, which all of precast's do: they do not wait for the import.
    """
    annotationlib: Any = importlib.import_module("annotationlib")
    annotate = annotationlib.get_annotate_from_class_namespace(body)
    if annotate is None:
        return {}
    return dict(annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Values(type):
    """The type of all classes of values."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        *,
        kw_only: bool = False,
        eq: bool = True,
        order: bool = False,
    ) -> Any:
        if any(getattr(base, "__slots__", ()) for base in bases):
            raise TypeError(f"{name} cannot inherit the fields of another class of values: name them again")
        annotations = body.get("__annotations__")
        if annotations is None and sys.version_info >= (3, 14):
            annotations = body["__annotations__"] = _unevaluated(body)
        names = tuple(annotations or ())
        body["__specs__"] = {name: body.pop(name) for name in names if name in body}
        body["__slots__"] = names
        body["__match_args__"] = () if kw_only else names
        if order:
            body.update(_ORDERED)
        if not eq:
            body.update(__eq__=object.__eq__, __hash__=object.__hash__)
        return super().__new__(mcs, name, bases, body)


class Immutable(metaclass=_Values):
    """The base of values: a class of these is a frozen, slotted dataclass.

    A class says with ``kw_only`` that its fields are given by name only, with ``eq=False`` that each value is equal to
    itself alone, and with ``order`` that they are ordered, as the tuples of their fields.

    >>> class Point(Immutable):
    ...     '''A place in the plane.'''
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), {Point(2, y=3)}
    (Point(x=1, y=0), True, {Point(x=2, y=3)})
    """

    __shape__ = _OfClass("__shape__", _Shape)
    __dataclass_fields__ = _OfClass("__dataclass_fields__", _dataclass_fields)

    def __init__(self: Any, *args: object, **named: object) -> None:
        shape: _Shape = self.__shape__
        if args:
            if not named and len(args) == shape.count == len(shape.positional):
                for (_, put), value in zip(shape.puts, args):  # noqa: B905 - as many, and quicker
                    put(self, value)
                return
            given = dict(zip(shape.positional, args))  # noqa: B905 - too many are refused below
            if len(args) > len(given) or not given.keys().isdisjoint(named):
                takes = f"{len(shape.positional)} fields by position, each field once"
                raise TypeError(f"{type(self).__name__} takes {takes}")
            named.update(given)
        elif len(named) == shape.count:
            try:  # most values are made with all their fields
                for name, put in shape.puts:
                    put(self, named[name])
                return
            except KeyError:
                pass
        for name, put, default, factory in shape.slots:
            value = named.pop(name, default)
            if value is MISSING:
                if factory is MISSING:
                    raise TypeError(f"{type(self).__name__} needs the field {name!r}")
                value = factory()
            put(self, value)
        if named:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(named))!r}")

    def __repr__(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__shape__.shown])
        return f"{type(self).__qualname__}({shown})"

    def __setattr__(self, name: str, to: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self: Any) -> Any:
        return _restored, (type(self), tuple([getattr(self, slot[0]) for slot in self.__shape__.slots]))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        shape: _Shape = type(self).__shape__
        equal: bool = shape.compared(self) == shape.compared(other)
        return equal

    def __hash__(self: Any) -> int:
        return hash(self.__shape__.compared(self))


def replace(old: T, **changes: object) -> T:
    """The same value with some fields changed, as ``dataclasses.replace`` makes it; this one is quicker.

    >>> from precast.loader.contract.format.target import Target
    >>> replace(Target(9, 0), suffix="a")
    Target(major=9, minor=0, suffix='a')
    """
    shape: _Shape = type(old).__shape__  # type: ignore[attr-defined]
    return type(old)(**{**{name: getattr(old, name) for name, *_ in shape.slots}, **changes})


def _restored(cls: Any, values: tuple[object, ...]) -> Any:
    """A copy, for ``copy`` and its like: they would set fields, which are frozen."""
    copy = object.__new__(cls)
    for slot, value in zip(cls.__shape__.slots, values, strict=True):
        slot[1](copy, value)
    return copy


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


_ORDERED = {"__lt__": _lt, "__le__": _le}  # Python turns these about for > and >=
