"""The served kernel is the one that the builder compiles for exactly these arguments, or none is served.

The compiler here returns a full description of what it got. A cache holds what it made of the decoded key, as a build
does; what is served must be what it makes of the arguments themselves.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import operator
import threading
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.attach.library import Library
from precast.attach.recordings.key_reader import decode
from precast.attach.recordings.keys import UnknownKey, canonical, encode
from precast.attach.seams.cached_compile import CachedMapping, cached_compile
from tests.helpers.attached import MINE

torch = pytest.importorskip("torch")


class Int(int):
    """A number with a member that a kernel may depend on."""

    tile = 64


class Text(str):
    pass


class Float(float):
    pass


class Pair(tuple[Any, ...]):
    pass


class Point(NamedTuple):
    x: Any
    y: Any = 0


class Wide(Point):
    """A named tuple with attributes of its own."""


class Size(enum.IntEnum):
    ONE = 1
    ALSO_ONE = 1
    TWO = 2


class Other(enum.IntEnum):
    ONE = 1


class Flags(enum.Flag):
    A = 1
    B = 2


class Word(str, enum.Enum):
    ONE = "1"


@dataclasses.dataclass(frozen=True)
class Config:
    tile: Any
    stages: Any = 2


@dataclasses.dataclass(frozen=True)
class Same:
    """Fields of the same values as ``Config``, in another class."""

    tile: Any
    stages: Any = 2


@dataclasses.dataclass(frozen=True)
class Derived(Config):
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    tile: Any


@dataclasses.dataclass(unsafe_hash=True)
class Mutable:
    tile: Any


@dataclasses.dataclass(frozen=True)
class Deaf:
    """Equal to everything of its class."""

    tile: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deaf)

    def __hash__(self) -> int:
        return 0


Loose = namedtuple("Loose", "x y")


def double(x: int) -> int:
    return 2 * x


class Op:
    def __init__(self, scale: int = 1) -> None:
        self.scale = scale

    def method(self, x: int) -> int:
        return self.scale * x

    @staticmethod
    def static(x: int) -> int:
        return x

    @classmethod
    def of_class(cls, x: int) -> int:
        return x


def described(value: Any) -> str:
    """All that a kernel may depend on, as text."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, enum.Enum):
        return f"{kind}.{value.name}"
    if isinstance(value, float):
        return f"{kind}({value.hex()})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f"{f.name}={described(getattr(value, f.name))}" for f in dataclasses.fields(value)]
        return f"{kind}({', '.join(fields)})"
    if isinstance(value, torch.Size):
        value, kind = tuple(value), "builtins.tuple"  # a key has no other sizes than a tuple's
    if isinstance(value, (tuple, list)):
        return f"{kind}[{', '.join(map(described, value))}]"
    if isinstance(value, dict):
        items = [f"{described(name)}: {described(item)}" for name, item in value.items()]
        return f"{kind}{{{', '.join(items)}}}"
    if isinstance(value, torch.device):
        return f"{kind}({value.type})"  # its number is no part of a key
    return f"{kind}({value!r})"


class Built:
    """A cache of what the compiler makes of decoded keys."""

    recording = False

    def __init__(self) -> None:
        self.notes: dict[str, Any] = {}

    def on_change(self, forget: Callable[[], None]) -> None:
        pass

    def obtain(self, library: Library, function: str, arguments: Mapping[str, Any], **_: Any) -> Any:
        try:
            forms = {name: encode(value) for name, value in arguments.items()}
            forms = {name: json.loads(canonical(form)) for name, form in forms.items()}
        except UnknownKey:
            return None
        return ", ".join(f"{name}={described(decode(form))}" for name, form in forms.items())


def compiled(n: Any, tile: Any = 64, *, stages: Any = 2) -> Any:
    """The library's own function: it compiles for the arguments that it gets."""
    return SimpleNamespace(compiled=True)


def expected(*args: Any, **kwargs: Any) -> str:
    bound = inspect.signature(compiled).bind(*args, **kwargs)
    bound.apply_defaults()
    return ", ".join(f"{name}={described(value)}" for name, value in bound.arguments.items())


def check(hooked: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Call it; what is served must be exact. Returns whether it was exact or refused."""
    result = hooked(*args, **kwargs)
    if getattr(result, "compiled", False):
        return "refused"
    assert result == expected(*args, **kwargs), (args, kwargs)
    return "exact"


NAN = float("nan")
CELL = 1
EXACT: tuple[tuple[Any, ...], ...] = (
    (1, True, 1.0, Size.ONE, Other.ONE, "1"), (0, False, 0.0, -0.0, None, ""), (Size.ONE, Size.ALSO_ONE, Size.TWO),
    (Flags.A, Flags.B, 1, 2), (Word.ONE, "1"), ((1, 2), [1, 2], (True, 2), (1.0, 2)),
    (Point(1, 2), (1, 2), Loose(1, 2), Wide(1, 2)), (Config(64), Same(64), Derived(64), Slotted(64)),
    (Config(0.0), Config(-0.0), Config(False)), (Deaf(1), Deaf(2), Deaf(True)), ("é", "e\u0301"),
    ("$cutlass:Int8", "x"),
    (float("inf"), float("-inf"), NAN, float("nan")), ((NAN,), (float("nan"),)), (2**63, float(2**63), 2**64),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": True, "b": 2}), ({1: "x"}, {True: "x"}, {"1": "x"}),
    (torch.float16, torch.half, torch.bfloat16), (torch.float32, torch.float, "float32"),
    (double, Op.static, int, Int, operator.add), (((((1,),),),), ((((True,),),),)), (Config([1, 2]), Config((1, 2))),
    (Config(Config(1)), Config(Config(True)), Config(Same(1))), (b"1"[0], 49), (torch.Size((1, 2)), (1, 2)),
)  # fmt: skip
REFUSED: tuple[Any, ...] = (
    Int(1), Text("1"), Float(1.0), Pair((1, 2)), numpy.float32(1.0), numpy.int64(1), numpy.float64(1.0),
    numpy.bool_(True), numpy.dtype("float32"), b"1", {1, 2}, frozenset({1, 2}), 1j, object(), lambda x: x,
    functools.partial(double, 1), Op().method, Op.of_class, OrderedDict(a=1), defaultdict(int, a=1), range(3),
    slice(1), Op(), SimpleNamespace(tile=1), Config(Op()), (Int(1), 2), [Text("x")], {"a": numpy.float32(1)},
    threading.local(), functools.lru_cache(lambda x: x), Flags.A | Flags.B, iter([1]), memoryview(b"1"),
)  # fmt: skip


@pytest.mark.parametrize("values", EXACT, ids=range(len(EXACT)))
def test_alike_arguments(values: tuple[Any, ...]) -> None:
    for order in (values, values[::-1]):
        hooked = cached_compile(Built(), MINE, compiled, compiled)
        for value in (*order, *order):
            ends = {
                check(hooked, value),
                check(hooked, n=value),
                check(hooked, 1, value),
                check(hooked, 1, stages=value),
            }
            assert len(ends) == 1


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_refused_arguments(value: Any) -> None:
    hooked = cached_compile(Built(), MINE, compiled, compiled)
    for _ in range(2):
        assert check(hooked, value) == check(hooked, (value, 1)) == check(hooked, 1, tile=value) == "refused"


def test_defaults_positions_and_names_are_one_key() -> None:
    hooked = cached_compile(Built(), MINE, compiled, compiled)
    calls = [((1,), {}), ((1, 64), {}), ((1,), {"tile": 64}), ((), {"n": 1, "stages": 2}), ((1, 64), {"stages": 2})]
    assert {hooked(*args, **kwargs) for args, kwargs in calls} == {expected(1)}


@pytest.mark.parametrize("make", [lambda: Mutable(1), lambda: Config([1]), lambda: (Mutable(1), 2), lambda: [1]])
def test_what_is_changed_between_calls_is_another_key(make: Callable[[], Any]) -> None:
    hooked = cached_compile(Built(), MINE, compiled, compiled)
    mapping = CachedMapping(Built(), MINE, "m:f", {})
    value = make()
    first = hooked(value)
    target: Any = value[0] if isinstance(value, tuple) else value
    if isinstance(target, Mutable):
        target.tile = 2
    else:
        (target.tile if isinstance(target, Config) else target).append(2)
    assert hooked(value) == expected(value) != first
    if "[" not in described(value).replace("tuple[", ""):  # a list is no key of a mapping
        assert mapping[value] == f"key={described(value)}"


def test_functions_that_hide_state_are_refused() -> None:
    def outer(scale: int) -> Callable[[int], int]:
        return lambda x: x * scale

    hooked = cached_compile(Built(), MINE, compiled, compiled)
    assert check(hooked, outer(1)) == check(hooked, outer(2)) == check(hooked, functools.partial(double)) == "refused"
    impostor = functools.wraps(double)(lambda x: 3 * x)
    del impostor.__wrapped__
    assert check(hooked, impostor) == "refused"  # by the name of another function


SCALARS = st.one_of(
    st.integers(-2, 2), st.booleans(), st.sampled_from([0.0, -0.0, 1.0, NAN, float("inf"), 0.1]), st.none(),
    st.sampled_from(["", "1", "$x", "é", "e\u0301"]), st.sampled_from([*Size, *Other, *Flags, Word.ONE]),
    st.sampled_from([torch.float16, torch.half, torch.float32, int, double, Op.static, Op, torch.device("cuda", 1)]),
    st.builds(Int, st.integers(0, 1)), st.builds(numpy.float64, st.just(1.0)), st.builds(Text, st.just("1")),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.builds(Config, inner, inner),
        st.builds(Derived, inner), st.builds(Same, inner), st.builds(Slotted, inner), st.builds(Mutable, inner),
        st.builds(Deaf, inner), st.builds(Point, inner, inner), st.builds(Pair, st.tuples(inner)),
        st.dictionaries(st.sampled_from(["a", "b", "1"]), inner, max_size=2), st.frozensets(st.integers(0, 1)),
    ),
    max_leaves=6,
)  # fmt: skip


@given(st.lists(st.tuples(VALUES, VALUES), max_size=6))
def test_any_arguments(calls: list[tuple[Any, Any]]) -> None:
    hooked = cached_compile(Built(), MINE, compiled, compiled)
    mapping, kept = CachedMapping(Built(), MINE, "m:f", {}), dict[Any, str]()
    for n, tile in (*calls, *calls):
        end = check(hooked, n, tile)
        assert end == check(hooked, tile=tile, n=n)
        try:
            served = mapping[n, tile]
        except KeyError:  # its own mapping has none
            assert end == "refused" and (n, tile) not in kept
        except TypeError:  # no key of a mapping
            with pytest.raises(TypeError, match="unhashable"):
                hash((n, tile))
        else:
            assert served == kept.setdefault((n, tile), f"key={described((n, tile))}")
