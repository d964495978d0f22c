"""Schemas read from signatures, and calls made with a config."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any, Literal

import pytest

from precast.kernels import DType, Tuned
from precast.kernels.authoring.errors import DeclarationError
from precast.kernels.authoring.schema import call, keys_of
from precast.loader.contract.format.config import Key
from precast.loader.errors import ConfigError


def plain(dtype: DType, hidden: int, layout: Literal["row", "col"] = "row", threads: Tuned[int] = 128) -> Any:
    return dtype, hidden, layout, threads


KEYS = (
    Key(name="dtype", type="dtype"),
    Key(name="hidden", type="int"),
    Key(name="layout", type="str", has_default=True, default="row", choices=("row", "col")),
    Key(name="threads", type="int", tuned=True, has_default=True, default=128),
)


class Built:
    def __init__(self, dtype: DType, hidden: int, layout: Literal["row", "col"] = "row", threads: Tuned[int] = 128):
        self.seen = dtype, hidden, layout, threads


class Callee:
    def __call__(
        self, dtype: DType, hidden: int, layout: Literal["row", "col"] = "row", threads: Tuned[int] = 128
    ) -> Any:
        return dtype, hidden, layout, threads

    def method(
        self, dtype: DType, hidden: int, layout: Literal["row", "col"] = "row", threads: Tuned[int] = 128
    ) -> Any:
        return dtype, hidden, layout, threads

    @classmethod
    def build(cls, dtype: DType, hidden: int, layout: Literal["row", "col"] = "row", threads: Tuned[int] = 128) -> Any:
        return dtype, hidden, layout, threads


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


FORMS: dict[str, Callable[..., Any]] = {
    "plain": plain,
    "cached": functools.cache(plain),
    "sized cache": functools.lru_cache(maxsize=2)(plain),
    "wrapped twice": logged(functools.cache(logged(plain))),
    "class": Built,
    "object": Callee(),
    "method": Callee().method,
    "classmethod": Callee.build,
}


@pytest.mark.parametrize("name", FORMS)
def test_keys_and_calls_are_the_same_through_every_form(name: str) -> None:
    function = FORMS[name]
    assert keys_of(function) == KEYS
    result = call(function, {"hidden": 4096, "dtype": "bf16"})
    assert getattr(result, "seen", result) == ("bfloat16", 4096, "row", 128)


def test_a_partial_gives_its_values_as_defaults() -> None:
    keys = keys_of(functools.partial(plain, hidden=64))
    assert [(k.name, k.has_default, k.default) for k in keys][:2] == [("dtype", False, None), ("hidden", True, 64)]
    assert call(functools.partial(plain, "half", hidden=64), {}) == ("half", 64, "row", 128)


def test_a_closure_sees_the_names_around_it() -> None:
    Local = Tuned[int]

    def inner(n: Local = 1) -> Any:
        return Local, n

    assert keys_of(inner)[0].tuned


def test_positional_only_and_keyword_only_parameters_are_called_as_they_must_be() -> None:
    def function(a: int, /, b: int, *, c: int = 3) -> Any:
        return a, b, c

    assert call(function, {"b": 2, "a": 1}) == (1, 2, 3)


def test_values_are_handed_over_in_the_form_of_the_hint() -> None:
    import cutlass
    import torch

    def function(
        t: torch.dtype, c: type[cutlass.Numeric], n: DType, many: list[torch.dtype], pair: tuple[int, int]
    ) -> Any:
        return t, c, n, many, pair

    config = {"t": "bf16", "c": "e4m3", "n": torch.float16, "many": ["half", "float"], "pair": [1, 2]}
    expected = (torch.bfloat16, cutlass.Float8E4M3FN, "float16", [torch.float16, torch.float32], (1, 2))
    # The hints are quoted, and name locals of this test: they are put where the function can see them.
    function.__globals__.update(torch=torch, cutlass=cutlass)
    assert call(function, config) == expected


def test_untyped_parameters_take_dtypes_as_their_code_spells_them() -> None:
    import cutlass
    import torch

    def function(a, b, c, d):  # type: ignore[no-untyped-def]
        return a, b, c, d

    config = {"a": "cutlass.BFloat16", "b": "torch.float16", "c": "torch.nothing", "d": [1, 2]}
    assert call(function, config) == (cutlass.BFloat16, torch.float16, "torch.nothing", [1, 2])


def test_untyped_dtypes_of_a_known_library_take_plain_names() -> None:
    import cutlass

    def function(dtype, res_dtype, dtypes, N):  # type: ignore[no-untyped-def]
        return dtype, res_dtype, dtypes, N

    config = {"dtype": "bfloat16", "res_dtype": None, "dtypes": "bfloat16", "N": 8}
    assert call(function, config) == ("bfloat16", None, "bfloat16", 8)
    function.__module__ = "quack.softmax"
    assert call(function, config) == (cutlass.BFloat16, None, "bfloat16", 8)
    assert call(function, {**config, "dtype": "cutlass.BFloat16"})[0] is cutlass.BFloat16


def test_an_untyped_parameter_with_a_dtype_for_a_default_is_a_dtype() -> None:
    import cutlass
    import torch

    def function(a=torch.bfloat16, b=cutlass.Float8E4M3FN):  # type: ignore[no-untyped-def]
        return a, b

    assert [(k.type, k.default) for k in keys_of(function)] == [("dtype", "bfloat16"), ("dtype", "float8_e4m3fn")]
    assert call(function, {}) == (torch.bfloat16, cutlass.Float8E4M3FN)


def test_a_default_of_none_makes_the_key_optional() -> None:
    def function(a: int = None, b=None, c: Literal["x"] = None):  # type: ignore[assignment, no-untyped-def]  # noqa: RUF013
        return a, b, c

    assert [k.type for k in keys_of(function)] == ["int?", "any?", "str?"]
    assert call(function, {}) == (None, None, None)
    assert call(function, {"a": 1, "c": "x"}) == (1, None, "x")


def star(n: int, *rest: int) -> None: ...


def double_star(**rest: int) -> None: ...


def spare(n: int, **rest: int) -> None: ...


class Update(enum.Enum):
    MEMORY = 0
    CONSTANT = 1


def by_enum(update: Update = Update.CONSTANT, other: Any = Update.MEMORY) -> Any:
    return update, other


def mapping(n: int, table: dict[str, int]) -> None: ...


def odd_default(n: int, callback: Any = print) -> None: ...


def wrong_default(n: int = "four") -> None: ...  # type: ignore[assignment]


def not_ascii(größe: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter"),
    [(star, "rest"), (double_star, "rest"), (mapping, "table"), (odd_default, "callback"), (wrong_default, "n")],
)
def test_what_cannot_be_a_key_is_named(function: Callable[..., Any], parameter: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        keys_of(function)
    assert function.__name__ in str(caught.value) and repr(parameter) in str(caught.value)


def test_what_is_left_over_beside_named_parameters_is_no_key() -> None:
    assert [key.name for key in keys_of(spare)] == ["n"]
    with pytest.raises(ConfigError, match="rest"):
        call(spare, {"n": 1, "rest": 2})


def test_members_of_an_enum_are_written_by_name() -> None:
    update, other = keys_of(by_enum)
    assert (update.type, update.default, update.choices) == ("str", "CONSTANT", ("MEMORY", "CONSTANT"))
    assert other.default == "MEMORY"
    assert call(by_enum, {"update": "MEMORY"})[0] is Update.MEMORY
    with pytest.raises(ConfigError, match="MEMORY"):
        call(by_enum, {"update": "MEMROY"})


def test_other_things_that_are_no_kernels() -> None:
    with pytest.raises(DeclarationError, match="rename it"):
        keys_of(not_ascii)
    with pytest.raises(DeclarationError, match="no Python signature"):
        keys_of(min)
    with pytest.raises(DeclarationError, match="is not callable"):
        keys_of(3)  # type: ignore[arg-type]


def test_a_config_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'hidden'"):
        call(plain, {"dtype": "bf16", "hiden": 1})
    with pytest.raises(ConfigError, match="needs the config key 'hidden'"):
        call(plain, {"dtype": "bf16"})
    with pytest.raises(ConfigError, match=r"config key pair: expected 2 values"):
        call(_pair, {"pair": [1]})


def _pair(pair: tuple[int, int]) -> Any:
    return pair
