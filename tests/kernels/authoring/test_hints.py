"""What type hints say about config keys."""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NewType, Optional, Type, Union  # noqa: UP035

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels import DType
from precast.kernels.authoring import hints
from precast.kernels.authoring.errors import DeclarationError
from precast.loader.contract.format.config import Key
from precast.loader.errors import ConfigError

Width = NewType("Width", int)

CASES: list[tuple[Any, str]] = [
    (str, "str"),
    (int, "int"),
    (float, "float"),
    (bool, "bool"),
    (DType, "dtype"),
    (Width, "int"),
    (list[int], "list[int]"),
    (list[DType], "list[dtype]"),
    (list[list[int]], "list[list[int]]"),
    (list, "list[any]"),
    (tuple, "list[any]"),
    (tuple[int, ...], "list[int]"),
    (tuple[int, int], "list[int]"),
    (tuple[int, str], "list[any]"),
    (Sequence[float], "list[float]"),
    (int | None, "int?"),
    (Optional[str], "str?"),  # noqa: UP045
    (Union[None, int], "int?"),  # noqa: UP007
    (Literal["row", None] | None, "str?"),
    (Annotated[int | None, "note"] | None, "int?"),
    (list[int | None], "list[int?]"),
    (list[int] | None, "list[int]?"),
    (int | float, "float"),
    (int | str, "any"),
    (int | str | None, "any?"),
    (Literal["row", "col"], "str"),
    (Literal[1, 2], "int"),
    (Literal["row", None], "str?"),
    (Literal[1, "a"], "any"),
    (Annotated[int, "some note"], "int"),
    (Any, "any"),
    (object, "any"),
    (types.SimpleNamespace, "any"),
    (type[int], "any"),
    ("int", "int"),
    ("'int'", "int"),
    ("list['int']", "list[int]"),
    ("Width | None", "int?"),
    ("unknown.Name", "any"),
    ("torch.dtype", "dtype"),
    ("Type[cutlass.Numeric]", "dtype"),
    ("type[cutlass.base_dsl.Numeric]", "dtype"),
    ("not an expression (", "any"),
]


def wrapped(wrap: str, hint: Any) -> Any:
    """A hint that is made while the test runs; type checkers know only those that are written out."""
    names = {**vars(typing), **vars(hints)}
    made: dict[str, Callable[[], Any]] = {
        "list": lambda: types.GenericAlias(list, (hint,)),
        "tuple": lambda: types.GenericAlias(tuple, (hint, ...)),
        "none": lambda: names["Optional"][hint],
        "tuned": lambda: names["Tuned"][hint],
        "quote": lambda: names["Annotated"][hint, "note"],
    }
    return made[wrap]()


@pytest.mark.parametrize(("hint", "kind"), CASES, ids=[str(hint) for hint, _ in CASES])
def test_a_hint_is_read_plain_and_quoted_and_tuned(hint: Any, kind: str) -> None:
    names = {"Width": Width}
    assert hints.read(hint, names).type == kind
    assert not hints.read(hint, names).tuned
    if not isinstance(hint, str):
        assert hints.read("hint", {"hint": hint}).type == kind
        tuned = hints.read(wrapped("tuned", hint), names)
        assert (tuned.type, tuned.tuned) == (kind, True)


def test_every_type_that_a_hint_gives_is_one_that_keys_take() -> None:
    samples = {"str": "a", "int": 1, "float": 1.5, "bool": True, "dtype": "bf16", "any": 1}
    for hint, _ in CASES:
        kind = hints.read(hint, {"Width": Width}).type
        value: Any = samples[kind.strip("?").replace("list[", "").rstrip("]").strip("?")]
        for _ in range(kind.count("list[")):
            value = [value]
        Key(name="k", type=kind).normal(value)


@pytest.mark.parametrize("hint", [torch_dtype := "torch.dtype", "type[cutlass.BFloat16]", "cutlass.Numeric"])
def test_dtypes_of_other_libraries_are_handed_over_as_theirs(hint: str) -> None:
    import cutlass
    import torch

    read = hints.read(hint, {"cutlass": cutlass, "torch": torch})
    assert read.type == "dtype"
    assert read.hand("bfloat16") is (torch.bfloat16 if hint == torch_dtype else cutlass.BFloat16)


def test_scalar_classes_of_the_dsl_are_their_python_types() -> None:
    import cutlass

    names = {"cutlass": cutlass}
    texts = ["cutlass.Int32", "cutlass.Uint8", "cutlass.Float32", "cutlass.BFloat16", "cutlass.Boolean"]
    assert [hints.read(t, names).type for t in texts] == ["int", "int", "float", "float", "bool"]
    assert hints.read("cutlass.Constexpr[int]", names).type == "int"
    assert hints.read(Type[cutlass.Numeric], {}).type == "dtype"  # noqa: UP006


@pytest.mark.parametrize(
    "hint", [dict, dict[str, int], set, frozenset[int], bytes, complex, Literal[b"x"], list[dict[str, int]]]
)
def test_a_hint_that_no_config_can_hold_is_refused(hint: Any) -> None:
    with pytest.raises(DeclarationError, match="use "):
        hints.read(hint, {})


def test_choices_come_from_literals() -> None:
    assert hints.read(Literal["row", "col"], {}).choices == ("row", "col")
    assert hints.read(Literal["row", "col"] | None, {}).choices == ("row", "col", None)
    assert hints.read(wrapped("tuned", Literal[1, 2]), {}).choices == (1, 2)


@given(st.lists(st.integers(-100, 100), max_size=5).map(tuple))
def test_lists_are_handed_over_as_hinted(value: tuple[int, ...]) -> None:
    assert hints.read(list[int], {}).hand(value) == list(value)
    assert hints.read(tuple[int, ...], {}).hand(value) == value
    assert hints.read(tuple[int, ...] | None, {}).hand(value) == value
    assert hints.read(tuple[int, ...] | None, {}).hand(None) is None
    assert hints.read(list[tuple[int, ...]], {}).hand((value, value)) == [value, value]


def test_a_tuple_of_fixed_length_is_counted() -> None:
    pair = hints.read(tuple[int, int], {})
    assert pair.hand((1, 2)) == (1, 2)
    with pytest.raises(ConfigError, match="expected 2 values, got 3"):
        pair.hand((1, 2, 3))


_SIMPLE = st.sampled_from([int, str, float, bool, DType])


@given(_SIMPLE, st.lists(st.sampled_from(["list", "tuple", "none", "tuned", "quote"]), max_size=3))
def test_hints_nest(base: Any, wraps: list[str]) -> None:
    hint = functools.reduce(lambda hint, wrap: wrapped(wrap, hint), wraps, base)
    read = hints.read(hint, {})
    assert read.tuned == ("tuned" in wraps)
    assert read.type.count("list[") == wraps.count("list") + wraps.count("tuple")
    assert "??" not in read.type


def test_reading_hints_imports_neither_torch_nor_the_dsl() -> None:
    import subprocess

    code = (
        "import sys; from precast.kernels.authoring import hints, registry; "
        "import precast.kernels.own.norms.rmsnorm, precast.kernels.own.elementwise.scale; "
        "assert not {'torch', 'cutlass', 'tvm_ffi', 'yaml'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
