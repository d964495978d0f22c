"""Values behave as the dataclasses that they stand in for."""

from __future__ import annotations

import copy
import dataclasses
import operator
import pickle
import subprocess
import sys
from dataclasses import field
from typing import Any

import pytest

from precast.loader.contract.values import Immutable, replace


class Ours(Immutable, order=True):
    """A value."""

    x: int
    y: int = 2
    z: list[int] = field(default_factory=list, compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Theirs:
    """The same, by the standard library."""

    x: int
    y: int = 2
    z: list[int] = field(default_factory=list, compare=False, repr=False)


class Named(Immutable, kw_only=True, eq=False):
    """A value whose fields go by name, and that is equal to itself alone."""

    x: int = 1


def both(*args: Any, **named: Any) -> list[Any]:
    found: list[Any] = []
    for cls in (Ours, Theirs):
        try:
            made: Any = cls(*args, **named)
        except TypeError:
            found.append(TypeError)
        else:
            found.append((repr(made).split("(")[1], made.x, made.y, made.z, hash(made), dataclasses.asdict(made)))
    return found


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((1,), {}), ((1, 3), {}), ((), {"x": 1}), ((1,), {"y": 5}), ((1, 2, [3]), {}), ((), {"y": 1, "x": 0}),
        ((), {}), ((), {"y": 1}), ((1, 2, [3], 4), {}), ((1,), {"x": 2}), ((1,), {"w": 2}), ((1, 2), {"y": 3, "w": 4}),
    ],
)  # fmt: skip
def test_they_are_made_alike(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = both(*args, **named)
    assert ours == theirs


make: Any = type(Ours)  # what makes classes of values


def test_they_have_no_subclasses() -> None:
    with pytest.raises(TypeError, match="Heir cannot inherit the fields"):
        make("Heir", (Ours,), {})
    assert not dataclasses.is_dataclass(Immutable), "the base is none itself"


def test_an_option_that_is_none_is_an_error() -> None:
    with pytest.raises(TypeError, match="kwonly"):
        make("Misspelt", (Immutable,), {}, kwonly=True)


def test_each_has_containers_of_its_own() -> None:
    assert Ours(1).z is not Ours(1).z


def test_they_compare_alike() -> None:
    for one in ((1, 2), (1, 3), (2, 2)):
        for other in ((1, 2), (1, 3), (2, 2)):
            for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
                assert compare(Ours(*one), Ours(*other)) == compare(Theirs(*one), Theirs(*other))
    assert Ours(1, z=[1]) == Ours(1, z=[2])
    assert Ours(1) != Theirs(1) and Ours(1) != (1, 2)
    with pytest.raises(TypeError):
        assert Ours(1) < Theirs(1)  # type: ignore[operator]
    assert Named() != Named() and len({Named(), Named()}) == 2


def test_nothing_about_them_changes() -> None:
    for name in ("x", "w"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(Ours(1), name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(Ours(1), name)
    assert not hasattr(Ours(1), "__dict__")


def test_what_works_on_dataclasses_works_on_them() -> None:
    ours: Any = Ours
    assert dataclasses.is_dataclass(ours) and [f.name for f in dataclasses.fields(ours)] == ["x", "y", "z"]
    assert dataclasses.replace(Ours(1), y=5) == replace(Ours(1), y=5) == Ours(1, 5)
    assert dataclasses.replace(Named(x=3), x=4).x == replace(Named(x=3), x=4).x == 4
    assert copy.deepcopy(Ours(1, z=[1])).z == pickle.loads(pickle.dumps(Ours(1, z=[1]))).z == [1]
    match Ours(1, 4):
        case Ours(x, y):
            assert (x, y) == (1, 4)
    with pytest.raises(TypeError, match="no field 'w'"):
        replace(Ours(1), w=1)
    with pytest.raises(TypeError, match="0 fields by position"):
        Named(1)  # type: ignore[call-arg]


def test_a_class_without_fields_has_values() -> None:
    class Nothing(Immutable):
        pass

    class Other(Immutable):
        pass

    assert Nothing() == Nothing() != Other()
    assert {Nothing(), Nothing()} == {Nothing()} and repr(Nothing()).endswith("Nothing()")
    assert replace(Nothing()) == copy.copy(Nothing()) == Nothing()
    with pytest.raises(TypeError, match="takes 0 fields"):
        Nothing(1)


PLAIN = """
import dataclasses
from dataclasses import field
from precast.loader.contract.values import Immutable

class Point(Immutable):
    x: int
    y: "int" = 0
    near: list[NotKnownYet] = field(default_factory=list)

assert Point(1) == Point(1, 0, []) and repr(Point(2, y=3)) == "Point(x=2, y=3, near=[])", Point(2)
assert [f.name for f in dataclasses.fields(Point)] == ["x", "y", "near"]
assert dataclasses.replace(Point(1), y=5).y == 5
class Empty(Immutable):
    '''Nothing.'''
assert Empty() == Empty()
"""


def test_a_class_in_a_module_whose_annotations_are_values() -> None:
    """As a user's own may be. Since Python 3.14 they are evaluated only where they are asked for."""
    source = PLAIN if sys.version_info >= (3, 14) else PLAIN.replace("NotKnownYet", "int")
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
