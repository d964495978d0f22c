"""Keys: one form for every value, in every process, and never two values with one form."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import math
import struct
import sys
from collections.abc import Iterator
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
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
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
    [
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        ("1", 1),
        ((1,), [1]),
        (Level.LOW, 1),
        (None, "null"),
        ("$ref:json:dumps", pytest),
    ],
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


def test_what_is_equal_or_alike_and_compiles_to_another_kernel_is_another_key() -> None:
    nan, negative = (math.copysign(math.nan, sign) for sign in (1, -1))
    assert (encode(nan), encode(negative)) == ("$float:nan", "$float:-nan")
    assert math.copysign(1, decode("$float:-nan")) == -1
    assert (encode(0.0), encode(-0.0)) == (0.0, "$float:-0.0")  # the config of a key has one zero
    assert math.copysign(1, decode("$float:-0.0")) == -1
    (own,) = struct.unpack("d", struct.pack("Q", 0x7FF8_0000_0000_0001))
    with pytest.raises(UnknownKey, match="a NaN with bits of its own"):
        encode(own)
    assert encode({"a": 1, "b": 2}) != encode({"b": 2, "a": 1})
    assert encode(scoped) != encode(scoped.__wrapped__)  # type: ignore[attr-defined]
    assert decode(encode(scoped.__wrapped__)) is scoped.__wrapped__  # type: ignore[attr-defined]


@contextlib.contextmanager
def scoped() -> Iterator[None]:
    yield


@pytest.mark.parametrize("name", ["SmemAllocator", "TmemAllocator", "SharedSpace", "L2PrefetchSize"])
def test_a_name_that_several_types_of_the_dsl_have_is_refused_without_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "cutlass", raising=False)
    for module in ("cutlass.utils", "cutlass.base_dsl.array"):
        with pytest.raises(UnknownKey, match=f"the DSL has several types {name}"):
            encode(type(name, (), {"__module__": module}))


@pytest.mark.slow
def test_no_two_types_or_members_of_the_dsl_have_one_form() -> None:
    pytest.importorskip("cutlass.cute")
    forms: dict[str, set[str]] = {}
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "cutlass"]:
        for value in list(vars(module).values()):
            if not isinstance(value, type) or not value.__module__.startswith("cutlass."):
                continue
            for one in (value, *value) if issubclass(value, enum.Enum) else (value,):
                with contextlib.suppress(UnknownKey):
                    forms.setdefault(encode(one), set()).add(repr(one))
    named = ("SmemAllocator", "TmemAllocator", "SharedSpace", "L2PrefetchSize")
    several = {form: found for form, found in forms.items() if len(found) > 1}
    assert not {form for form in several if any(name in form for name in named)}, several
