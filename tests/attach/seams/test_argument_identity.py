"""Equal arguments that are different keys: the kernel served is that of the very arguments, whichever came first."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.attach.library import Library
from precast.attach.recordings.key_reader import decode
from precast.attach.recordings.keys import UnknownKey, canonical, encode
from precast.attach.seams.cached_compile import CachedMapping, cached_compile
from tests.helpers.attached import MINE


class Echo:
    """Serves, as the kernel of a key, the text of the key."""

    recording = False

    def __init__(self) -> None:
        self.notes: dict[str, Any] = {}

    def on_change(self, forget: Callable[[], None]) -> None:
        pass

    def obtain(self, library: Library, function: str, arguments: Mapping[str, Any], **_: Any) -> Any:
        try:
            return text_of(next(iter(arguments.values())))
        except UnknownKey:
            return None


def text_of(value: Any) -> str:
    return canonical(encode(value))


def compiled(n: Any) -> Any:
    """The library's own function, which tells that it compiled."""
    return SimpleNamespace(compiled=True)


@dataclasses.dataclass(frozen=True)
class Plain:
    rows: Any
    columns: Any = 8


@dataclasses.dataclass(frozen=True)
class Hidden:
    """Equal whatever the tile is."""

    rows: Any
    tile: Any = dataclasses.field(default=64, compare=False)


@dataclasses.dataclass
class Computed:
    """The tile is no argument of the constructor."""

    rows: Any
    tile: Any = dataclasses.field(default=64, init=False)

    def __hash__(self) -> int:
        return 1


@dataclasses.dataclass(eq=False)
class ByIdentity:
    rows: Any


class Loose:
    """An object that has no form as a key."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows


class Pair(NamedTuple):
    one: Any
    two: Any


class Size(enum.IntEnum):
    ONE = 1
    TWO = 2


def computed(rows: Any, tile: Any) -> Computed:
    value = Computed(rows)
    value.tile = tile
    return value


SCALARS = st.sampled_from([0, 1, False, True, 0.0, -0.0, 1.0, 2, "1", None, Size.ONE, Size.TWO, float("inf"), b"", int])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(inner, inner),
        st.builds(Plain, inner, inner),
        st.builds(Hidden, inner, inner),
        st.builds(computed, inner, inner),
        st.builds(ByIdentity, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=4,
)  # fmt: skip


ALIKE: tuple[list[Any], ...] = ([0, False, 0.0, -0.0], [1, True, 1.0, Size.ONE], ["1", 1, None], [64, 128, 256])
SHAPES: tuple[Callable[[Any], Any], ...] = (
    lambda v: v, lambda v: (v, 8), Plain, lambda v: Hidden(1, v), lambda v: computed(1, v), ByIdentity,
    lambda v: Pair(v, v), lambda v: Plain(Hidden(v, v)),
)  # fmt: skip


@st.composite
def alike(draw: st.DrawFn) -> list[Any]:
    """Values of one shape, most of which are equal, or look equal."""
    leaves, outer, inner = draw(st.sampled_from(ALIKE)), draw(st.sampled_from(SHAPES)), draw(st.sampled_from(SHAPES))
    return [outer(inner(leaf)) for leaf in draw(st.permutations(leaves))]


@pytest.mark.parametrize("memo", [lambda f: f, functools.cache], ids=["plain", "cached"])
@given(calls=alike() | st.lists(VALUES, max_size=8))
def test_each_call_gets_the_kernel_of_its_very_arguments(memo: Callable[..., Any], calls: list[Any]) -> None:
    hooked = cached_compile(Echo(), MINE, compiled, memo(compiled))
    mapping = CachedMapping(Echo(), MINE, "m:f", {})
    for value in (*calls, *calls):
        try:
            expected = text_of(value)
        except UnknownKey:
            assert hooked(value).compiled
            continue
        assert hooked(value) == expected and hooked(n=value) == expected
        assert mapping[value] == expected


@pytest.mark.parametrize("memo", [lambda f: f, functools.cache], ids=["plain", "cached"])
def test_an_object_that_was_changed_is_another_key(memo: Callable[..., Any]) -> None:
    hooked = cached_compile(Echo(), MINE, compiled, memo(compiled))
    for value in (ByIdentity(1), computed(1, 64)):
        first = hooked(value)
        value.rows = 2
        assert hooked(value) == text_of(value) != first
    loose = Loose(1)
    assert hooked(loose).compiled
    nested = Plain(ByIdentity(1))
    first = hooked(nested)
    nested.rows.rows = 2
    assert hooked(nested) == text_of(nested) != first


@given(VALUES)
def test_what_a_key_stands_for_has_the_same_key(value: Any) -> None:
    try:
        form = encode(value)
    except UnknownKey:
        return
    assert canonical(encode(decode(form))) == canonical(form)


def test_a_field_that_the_constructor_does_not_take_is_part_of_the_key() -> None:
    assert text_of(computed(1, 64)) != text_of(computed(1, 128))
    again = decode(encode(computed(1, 128)))
    assert isinstance(again, Computed) and again.tile == 128


def test_an_attribute_that_is_no_field_is_refused() -> None:
    value = Computed(1)
    value.stages = 3  # type: ignore[attr-defined]
    with pytest.raises(UnknownKey, match="has the attribute 'stages', which is not one of its fields"):
        encode(value)


@pytest.mark.parametrize("name", ["__class__", "stages"])
def test_a_form_sets_no_attribute_beside_the_fields(name: str) -> None:
    with pytest.raises(UnknownKey, match=f"Computed has no field '{name}'"):
        decode([f"$dataclass:{__name__}:Computed", ["rows", 1], [name, 2]])
