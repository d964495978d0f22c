"""Keys: one form for every value, in every process, and never two values with one form."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.attach.recordings.key_reader import decode
from precast.attach.recordings.keys import UnknownKey, canonical, encode


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Level(enum.IntEnum):
    LOW = 1


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Config:
    tile: Any
    name: str = "x"


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(
        [*Mode, Level.LOW, Mode, Config, "$", "$str:", "$list", "$tensor", math.inf, -math.inf, 0.0, 1, True]
    )
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.lists(inner, max_size=4)
        | st.tuples(inner, inner).map(lambda both: Pair(*both))
        | inner.map(Config)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Equal in value and in every type."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, Config):
        return same(one.tile, other.tile) and one.name == other.name
    if isinstance(one, float):
        return repr(one) == repr(other)
    return bool(one == other)


@given(VALUES)
def test_what_is_decoded_is_what_was_encoded(value: Any) -> None:
    assert same(decode(encode(value)), value)


@given(VALUES, VALUES)
def test_two_values_never_have_one_form(one: Any, other: Any) -> None:
    assert (canonical(encode(one)) == canonical(encode(other))) == same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), ("1", 1), ((1,), [1]), (Level.LOW, 1), (None, "null"), ("$ref:json:dumps", pytest)],
)
def test_what_python_calls_equal_is_kept_apart(one: Any, other: Any) -> None:
    if other is pytest:
        from json import dumps

        other = dumps
    assert canonical(encode(one)) != canonical(encode(other))


def test_what_has_no_form_is_refused_by_its_type() -> None:
    with pytest.raises(UnknownKey, match=r"a builtins\.object has no form"):
        encode((1, object()))
    with pytest.raises(UnknownKey, match="defined inside a function"):
        encode(lambda: None)
    with pytest.raises(UnknownKey, match="has no form"):
        encode(b"bytes")


def test_a_key_that_nests_without_end_is_refused() -> None:
    nested: list[Any] = []
    nested.append(nested)
    with pytest.raises(UnknownKey, match="nests deeper"):
        encode(nested)


def test_tensors_are_described_in_calls_only() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.empty_strided((2, 3), (8, 1), dtype=torch.bfloat16, device="meta")
    with pytest.raises(UnknownKey):
        encode(tensor)
    form = encode(tensor, tensors=True)
    assert form == ["$tensor", "bfloat16", [2, 3], [8, 1], False]
    assert decode(form, tensor=lambda *facts: facts) == ("bfloat16", [2, 3], [8, 1], False)
    assert decode(encode(torch.bfloat16)) is torch.bfloat16


@pytest.mark.parametrize(
    "form",
    [
        "$x:y",
        "$enum:json:X.Y",
        "$ref:no_such_module:x",
        "$ref:json:nothing",
        "$ref:json",
        "$float:x",
        "$torch:nothing",
        ["$dict", 1],
        ["$dict", [1]],
        ["$dict", [["$list"], 1]],
        ["$dataclass:json:dumps", 1],
        ["$namedtuple:json:no"],
        ["$dataclass:tests.loader.attach.test_keys:Config", ["other", 1]],
        ["$made:x"],
        ["$tensor", "float32"],
        "$device:nothing at all",
        ["$list", ["$list", "$ref::"]],
    ],
)
def test_a_form_that_stands_for_nothing_is_refused(form: Any) -> None:
    with pytest.raises(UnknownKey, match="correct the recording"):
        decode(form, tensor=lambda dtype, sizes, strides, requires_grad: None)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=8))
def test_any_json_is_decoded_or_refused(form: Any) -> None:
    try:
        decode(form)
    except UnknownKey as error:
        assert "recording" in str(error)
